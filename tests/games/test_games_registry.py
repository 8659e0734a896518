"""`games.make`: valid and invalid requests."""

import fractions
import os
import subprocess
import sys

import jax
import numpy as np
import pgx
import pytest

import games
from dualmctx.errors import UserError
from games.registry import with_defaults

NAMES = {
    "connect2", "nim", "hsr", "tic_tac_toe", "connect_four", "othello", "hex", "go_9x9",
    "go_19x19", "animal_shogi", "gardner_chess", "chess", "shogi",
}  # fmt: skip


def test_available():
    assert set(games.available()) == NAMES
    assert len(games.available()) == len(NAMES)


def test_make_returns_the_named_game():
    for name in NAMES:
        env = games.make(name.replace("_", "-"))
        assert (env.id, env.num_players) == (name, 2)
        assert games.has_asymmetric_roles(env) == (name == "hsr")


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("checkers", {}, "no game 'checkers': choose one of connect2, nim"),
        (None, {}, "no game None"),
        ("nim", {"piles": 3}, "nim has no parameter 'piles': it takes max_take, pile"),
        ("tic_tac_toe", {"size": 4}, "tic_tac_toe has no parameter 'size': it takes no parameters"),
        ("go_9x9", {"size": 13}, "go_9x9 has no parameter 'size'"),
        ("nim", {"pile": 0}, "pile=0: pass a whole number from 1 to 1000000 .*stones"),
        ("go_9x9", {"komi": "7.5"}, "komi='7.5': pass a number from -361 to 361"),
    ],
)
def test_invalid_request_raises_one_line(name, parameters, message):
    with pytest.raises(ValueError, match=message) as caught:
        games.make(name, **parameters)
    assert "\n" not in str(caught.value)


# Values that no parameter takes, and those that only a parameter with fractions takes.
NEVER = [
    *(-(10**24), 10**5000, 2**31, 1e300, float("nan"), float("inf")),
    *(True, np.True_, "9" * 5000, np.int64(2**40), np.array(3), "3", [], object()),
    fractions.Fraction(7, 2),
]
FRACTIONS = [0, -1, -0.0, 1.5, 3.0, np.int8(-3), np.float32(0.5)]
PARAMETERS = [(name, parameter) for name in sorted(NAMES) for parameter in with_defaults(name, {})]


def test_the_table_has_all_parameters():
    assert len(PARAMETERS) == 2 + 3 + 1 + 2 * 3


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_each_parameter_refuses_values_out_of_its_range_in_one_line(name, parameter):
    default = with_defaults(name, {})[parameter]
    has_fractions = isinstance(default, float)
    for value in NEVER + [None] * (default is not None) + FRACTIONS * (not has_fractions):
        with pytest.raises(UserError, match=rf"^{parameter}=[^\n]*: pass a [^\n]*$") as caught:
            games.make(name, **{parameter: value})
        assert len(str(caught.value)) < 200
    for value in [np.int8(100), np.uint64(20), 7, *FRACTIONS * has_fractions]:
        env = games.make(name, **{parameter: value})
        assert jax.eval_shape(env.init, jax.random.PRNGKey(0)).rewards.shape == (2,)


def test_unknown_parameters_are_refused():
    for parameter in ("", "x" * 1000, "self", "name"):
        with pytest.raises(UserError, match="has no parameter") as caught:
            games.make("hex", **{parameter: 10**5000})
        assert len(str(caught.value)) < 200


def test_equal_arguments_give_one_object():
    assert games.make("hsr", k=4, q=5) is games.make("hsr", q=5, k=4)
    assert games.make("nim") is games.make("nim", pile=20)


def test_parameters_reach_the_game():
    nim = games.make("nim", max_take=np.int64(5), pile=7)
    assert (nim.num_actions, nim.game.pile) == (5, 7)
    assert games.make("hsr", k=2, q=3, n=5).num_actions == 6
    assert games.make("hex", size=3).num_actions == 10
    go = games.make("go_9x9", komi=5, history_length=2, max_terminal_steps=None)
    assert go.observation_shape == (9, 9, 5)
    assert go._game.komi == 5


def test_small_hex_ends_and_swaps():
    env = games.make("hex", size=2)
    init, step = jax.jit(env.init), jax.jit(env.step)
    start = init(jax.random.PRNGKey(0))
    assert start.legal_action_mask.tolist() == [True] * 4 + [False]
    opened = step(start, 0)
    assert opened.legal_action_mask.tolist() == [False, True, True, True, True]
    won = step(step(opened, 1), 2)  # the first column connects top and bottom
    assert won.terminated
    assert float(won.rewards[start.current_player]) == 1
    swapped = step(step(start, 1), 4)
    assert swapped.current_player == start.current_player
    assert games.to_text(swapped).splitlines()[1:] == [". .", "o ."]


def test_hex_of_default_size_matches_pgx():
    ours, theirs = games.make("hex"), pgx.make("hex")
    states = [env.init(jax.random.PRNGKey(1)) for env in (ours, theirs)]
    jax.tree.map(np.testing.assert_array_equal, *map(jax.tree.leaves, states))


def test_import_touches_no_device():
    """The platform does not exist, so any computation during import would fail."""
    command = [sys.executable, "-c", "import sys, games; assert 'pgx' not in sys.modules"]
    env = os.environ | {
        "JAX_PLATFORMS": "no_such_platform",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
