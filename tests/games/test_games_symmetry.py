"""Checks symmetries against the rules by playing games and their images side by side."""

import functools
from typing import NamedTuple

import jax
import numpy as np
import pgx.go
import pytest

import games

# The rules and symmetries of Go do not depend on the board size; a small board has more captures.
GAMES = {
    "connect2": games.make("connect2"),
    "tic_tac_toe": games.make("tic_tac_toe"),
    "connect_four": games.make("connect_four"),
    "othello": games.make("othello"),
    "hex": games.make("hex", size=4),
    "go": pgx.go.Go(size=5, history_length=3),
}
NUM_GAMES = 8


@functools.cache
def functions(name):
    """Returns batched `init` and `step`."""
    env = GAMES[name]
    return tuple(jax.jit(jax.vmap(f)) for f in (env.init, env.step))


class Ply(NamedTuple):
    """One ply of G games: states `[G]`, and actions `[G]`, -1 if the game is over."""

    state: object
    action: np.ndarray


@functools.cache
def originals(name):
    """Plays random games to their ends."""
    init, step = functions(name)
    draws = np.random.default_rng(0)
    keys = jax.random.split(jax.random.key(0), NUM_GAMES)
    state, plies = init(keys), []
    while True:
        is_over = np.asarray(state.terminated | state.truncated)
        if is_over.all():
            return [*plies, Ply(state, np.full(NUM_GAMES, -1))]
        # Prefer the last action, which is the pass or the swap.
        legal = np.asarray(state.legal_action_mask)
        odds = draws.random(legal.shape) * legal
        odds[:, -1] *= 1.1
        actions = np.where(is_over, -1, odds.argmax(axis=1))
        plies.append(Ply(jax.device_get(state), actions))
        state = step(state, np.maximum(actions, 0).astype(np.int32))


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_permuted_games_follow_the_rules(name):
    """The image of each game has the permuted observations and legal actions, and its rewards."""
    init, step = functions(name)
    check_coverage(name, originals(name))
    for observation, action in zip(*games.symmetries(GAMES[name]), strict=True):
        new_action = np.argsort(action)
        state = init(jax.random.split(jax.random.key(0), NUM_GAMES))
        for old, actions in originals(name):
            flat = old.observation.reshape(NUM_GAMES, -1)
            found = np.asarray(state.observation).reshape(NUM_GAMES, -1)
            np.testing.assert_array_equal(found, flat[:, observation])
            on, legal = actions >= 0, old.legal_action_mask[:, action]
            np.testing.assert_array_equal(state.legal_action_mask[on], legal[on])
            for field in ("rewards", "terminated", "truncated", "current_player"):
                np.testing.assert_array_equal(getattr(state, field), getattr(old, field))
            state = step(state, new_action[actions].astype(np.int32))


def check_coverage(name, plies):
    actions = np.stack([ply.action for ply in plies])
    assert len({tuple(column) for column in actions.T}) > NUM_GAMES / 2
    # pgx returns the result once; afterwards rewards are zero.
    rewards = np.stack([ply.state.rewards[:, 0] for ply in plies])
    assert {-1, 1} <= set(rewards.ravel().tolist())
    if name == "hex":
        assert (actions[1] == 16).any(), "no player swapped"
    if name == "othello":
        assert (actions == 64).any(), "no player passed"
    if name == "go":
        stones = [(ply.state._x.board != 0).sum(axis=1) for ply in plies]
        assert (np.diff(stones, axis=0) < 0).any(), "nothing was captured"
        assert any((ply.state._x.ko >= 0).any() for ply in plies), "there was no ko"
        assert (actions == 25).any(), "no player passed"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *[("connect2", 2), ("tic_tac_toe", 8), ("connect_four", 2), ("othello", 4), ("hex", 2)],
        *[("go_9x9", 8), ("hsr", 1)],
    ],
)
def test_symmetries_form_a_group_of_permutations(name, number):
    env = games.make(name)
    found = games.symmetries(env)
    state = jax.eval_shape(env.init, jax.random.PRNGKey(0))
    num_entries, num_actions = np.prod(state.observation.shape), len(state.legal_action_mask)
    assert found.observation.shape == (number, num_entries)
    assert found.action.shape == (number, num_actions)
    for rows in found:
        assert rows.dtype == np.int32
        np.testing.assert_array_equal(rows[0], np.arange(rows.shape[1]))
        members = {row.tobytes() for row in rows}
        assert {one[other].tobytes() for one in rows for other in rows} == members
        assert len(members) == number
    assert {(np.sort(row) == np.arange(len(row))).all() for rows in found for row in rows} == {True}


@pytest.mark.slow
def test_a_piece_game_has_only_the_identity():
    """The left-right reflection, which preserves the sides, changes the initial position."""
    env = games.make("animal_shogi")
    start = jax.jit(env.init)(jax.random.PRNGKey(0))
    assert (start.observation != start.observation[:, ::-1]).any()
    for rows, size in zip(
        games.symmetries(env), (start.observation.size, len(start.legal_action_mask)), strict=True
    ):
        np.testing.assert_array_equal(rows, [np.arange(size)])
