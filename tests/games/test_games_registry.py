"""`games.make`: valid and invalid requests."""

import os
import subprocess
import sys

import jax
import numpy as np
import pgx
import pytest

import games

NAMES = {
    "connect2", "nim", "hsr", "tic_tac_toe", "connect_four", "othello", "hex", "go_9x9",
    "go_19x19", "animal_shogi", "gardner_chess", "chess", "shogi",
}  # fmt: skip


def test_available():
    assert set(games.available()) == NAMES
    assert len(games.available()) == len(NAMES)


@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", sorted(NAMES))
def test_make_returns_the_named_game(name):
    env = games.make(name)
    assert env.id == name
    assert env.num_players == 2


def test_hyphens_and_underscores_are_equivalent():
    assert games.make("tic-tac-toe").id == "tic_tac_toe"
    assert games.make("go-9x9").id == "go_9x9"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("checkers", {}, "no game 'checkers': choose one of connect2, nim"),
        (None, {}, "no game None"),
        ("nim", {"piles": 3}, "nim has no parameter 'piles' .*takes max_take, pile"),
        ("tic_tac_toe", {"size": 4}, "tic_tac_toe has no parameter 'size' .*no parameters"),
        ("connect2", {"self": 1}, "connect2 has no parameter 'self'"),
        ("go_9x9", {"size": 13}, "go_9x9 has no parameter 'size'"),
        ("nim", {"pile": 0}, "pile=0: pass a whole number of at least 1"),
        ("nim", {"pile": -3}, "pile=-3"),
        ("nim", {"pile": 2.5}, "pile=2.5"),
        ("nim", {"pile": True}, "pile=True"),
        ("nim", {"pile": None}, "pile=None"),
        ("nim", {"max_take": "3"}, "max_take='3'"),
        ("hsr", {"k": -1}, "k=-1"),
        ("hsr", {"k": 0}, "k=0"),
        ("hsr", {"q": 0}, "q=0"),
        ("hsr", {"n": 1}, "n=1: pass a whole number of at least 2"),
        ("hex", {"size": 1}, "size=1"),
        ("hex", {"size": "11"}, "size='11'"),
        ("go_9x9", {"komi": float("nan")}, "komi=nan"),
        ("go_9x9", {"komi": "7.5"}, "komi='7.5'"),
        ("go_9x9", {"history_length": 0}, "history_length=0"),
        ("go_9x9", {"max_terminal_steps": 1.5}, "max_terminal_steps=1.5"),
    ],
)
def test_invalid_request_raises_one_line(name, parameters, message):
    with pytest.raises(ValueError, match=message) as caught:
        games.make(name, **parameters)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "bad"), [("nim", {"pile": 0}), ("hsr", {"n": 1})])
def test_classes_validate_parameters(name, bad):
    with pytest.raises(ValueError, match="pass a whole number"):
        type(games.make(name))(**bad)


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
    for seed in range(3):
        states = [env.init(jax.random.PRNGKey(seed)) for env in (ours, theirs)]
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
