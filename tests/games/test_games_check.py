"""`games.check_game` finds each fault of a broken game, and none in a correct one."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pytest

import games
from broken_games import PLAYED, RULES, STATIC, Mixed, WrongAbilities, static
from dualmctx.commands.main import main
from games import contract_play
from games.contract_check import find_ability_faults
from refusals import refused


def check(faults, patterns):
    """Checks that each pattern matches one fault, and that there are no others."""
    problems = [fault.problem for fault in faults]
    found = [sum(bool(re.search(x, problem)) for problem in problems) for x in patterns]
    assert found == [1] * len(problems), problems
    assert all(fault.remedy and "\n" not in "".join(fault) for fault in faults)


@pytest.mark.parametrize("pattern", STATIC)
def test_a_fault_of_shapes_is_found(pattern):
    problems = [fault.problem for fault in games.check_game(STATIC[pattern]).faults]
    assert any(re.search(pattern, problem) for problem in problems), problems


@pytest.mark.slow
def test_each_broken_rule_of_play_is_found():
    key, number = jax.random.PRNGKey(1), 128
    played = jax.device_get(contract_play.play(Mixed(), key, number, 32))
    kinds = np.asarray(jax.vmap(Mixed().init)(jax.random.split(key, number)).secret)
    assert contract_play.RULES.keys() == RULES.keys() - {"none"}
    found = {
        rule: {
            broken for broken, plies in played.first_bad.items() if (plies[kinds == i] >= 0).any()
        }
        for i, rule in enumerate(RULES)
    }
    # Wrong rewards of forbidden moves are no further fault.
    assert found == {rule: {rule} for rule in RULES} | {
        "none": set(),
        "over_at_start": {"over_at_start", "goes_on"},
        "player": {"player", "zero_sum", "illegal"},
    }


@pytest.mark.slow
@pytest.mark.parametrize(("env", "patterns"), PLAYED)
def test_the_faults_of_play_are_found(env, patterns):
    check(games.check_game(env).faults, patterns)


@pytest.mark.slow
def test_the_faults_of_abilities_are_found():
    patterns = (
        "move_names: .* returns 1 names",
        "symmetries: after 0 moves .* an image of it differs",
        "exact solution: .* position_code",
        "from_fen and to_fen: the state of '7' has another observation",
    )
    env = WrongAbilities()
    check([*find_ability_faults(env, jax.random.PRNGKey(0))], patterns)
    # A fault does not keep the facts and the other faults from being listed.
    env.num_codes = None
    faults, facts = games.check_game(env)
    check(faults, patterns)
    assert len(facts) == 2


def test_a_fen_needs_a_start_at_which_player_0_moves():
    always = {"init": lambda self, key: self.make(jnp.int32(7), jnp.int32(1))}
    fens = {"from_fen": lambda self, text: None, "to_fen": lambda self, state: "7"}
    [fault] = find_ability_faults(static("Second", **always, **fens), jax.random.PRNGKey(0))
    assert fault.problem.startswith("from_fen and to_fen: player 0 never moves first in init of ga")


def test_only_a_step_that_needs_a_key_has_the_remedy_of_chance():
    for step, remedy in (
        (lambda self, state, action, key: state, "whose step needs a key"),
        (lambda self, state, action, key=None: Mixed().init(key), "whose step needs a key"),
        (pgx.make("2048").step, "whose step needs a key"),
        (lambda self, state, action: state.replace(bord=1), "write it with jax.numpy"),
        (lambda self, state, action: {}["key"], "write it with jax.numpy"),
        (lambda self, state, action: int("monkey"), "write it with jax.numpy"),
    ):
        [fault] = games.check_game(static("Broken", step=step)).faults
        assert remedy in fault.remedy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("hsr", {"k": 2, "q": 2, "n": 4}), ("hex", {"size": 3}), ("nim", {"pile": 5})],
)
def test_the_games_of_the_package_have_no_fault(name, parameters):
    assert games.check_game(games.make(name, **parameters)).faults == []


def test_the_command_names_the_fault_and_the_remedy(capsys):
    assert main(["check-game", "broken_games:Kuhn"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "1. num_players is 3\n   Remedy: only games of exactly two players" in said.err
    assert said.err.splitlines()[-1] == ("dualmctx check-game: broken_games:Kuhn has 1 fault")
    for seed in ("-1", str(2**32)):
        line = f"seed is {seed}; it must be from 0 to {2**32 - 1}"
        assert line in refused(["check-game", "broken_games:Good", "--seed", seed], capsys)


@pytest.mark.slow
def test_the_command_says_that_nothing_is_wrong(capsys):
    assert main(["check-game", "broken_games:Good", "--seed", "1"]) == 0
    said = capsys.readouterr()
    facts = said.out.splitlines()
    assert facts[0] == "3 actions, observations of 9 (bool), players alternate"
    assert "random games of 4 to 7 plies" in facts[1]
    assert facts[-1] == "broken_games:Good: nothing is wrong"
    assert said.err == ""
