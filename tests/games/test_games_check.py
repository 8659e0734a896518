"""`games.check_game` finds each fault of a broken game, and none in a correct one."""

import re

import jax
import numpy as np
import pytest

import games
from broken_games import ABILITIES, PLAYED, RULES, STATIC, Good, Mixed
from dualmctx.commands.main import main
from games import contract_play
from games.contract_check import find_ability_faults
from games.go import Go
from refusals import refused


def check(env, pattern):
    checked = games.check_game(env)
    problems = [fault.problem for fault in checked.faults]
    assert any(re.search(pattern, problem) for problem in problems), problems
    assert all(fault.remedy and "\n" not in "".join(fault) for fault in checked.faults)
    return problems


@pytest.mark.parametrize("pattern", STATIC)
def test_a_fault_of_shapes_is_found(pattern):
    check(STATIC[pattern], pattern)


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
    assert found == {rule: {rule} for rule in RULES} | {
        "none": set(),
        "over_at_start": {"over_at_start", "goes_on"},
        "player": {"player", "zero_sum", "illegal"},
    }


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PLAYED)
def test_a_fault_of_play_is_found(pattern):
    problems = check(PLAYED[pattern], pattern)
    # Wrong rewards of forbidden moves are no further fault.
    assert len(problems) == 1 or "zero" not in pattern


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ABILITIES)
def test_a_fault_of_an_ability_is_found(pattern):
    [fault] = find_ability_faults(ABILITIES[pattern], jax.random.PRNGKey(0))
    assert re.search(pattern, fault.problem)


@pytest.mark.slow
def test_a_correct_game_has_no_fault():
    checked = games.check_game(Good())
    assert checked.faults == []
    assert "3 actions, observations of 9 (bool), players alternate" in checked.facts
    assert any("random games of 4 to 7 plies" in fact for fact in checked.facts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [
        games.make("hsr"),
        games.make("nim"),
        games.make("hex", size=4),
        Go(size=5),
    ],
    ids=lambda env: env.id,
)
def test_the_games_of_the_package_have_no_fault(env):
    assert games.check_game(env).faults == []


def test_the_command_names_the_fault_and_the_remedy(capsys):
    assert main(["check-game", "broken_games:Kuhn"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "1. num_players is 3\n   Remedy: only games of exactly two players" in said.err
    assert said.err.splitlines()[-1] == ("dualmctx check-game: broken_games:Kuhn has 1 fault")
    assert main(["check-game", "broken_games:Missing"]) == 2
    assert "has no Missing" in capsys.readouterr().err
    for seed in ("-1", str(2**32)):
        line = f"seed is {seed}; it must be from 0 to {2**32 - 1}"
        assert line in refused(["check-game", "broken_games:Good", "--seed", seed], capsys)


@pytest.mark.slow
def test_the_command_says_that_nothing_is_wrong(capsys):
    assert main(["check-game", "broken_games:Good", "--seed", "1"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "broken_games:Good: nothing is wrong"
    assert said.err == ""
