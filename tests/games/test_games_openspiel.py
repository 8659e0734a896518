"""Compares the rules with OpenSpiel's, move by move, in random games."""

import random

import jax
import numpy as np
import pytest

import games

pyspiel = pytest.importorskip("pyspiel")

TABLE = [
    # our game, OpenSpiel's, random games
    ("tic_tac_toe", {}, ("tic_tac_toe", {}), 80),
    ("connect_four", {}, ("connect_four", {}), 80),
    ("nim", {"pile": 9, "max_take": 4}, ("nim", {"pile_sizes": "9", "is_misere": False}), 50),
    ("hex", {"size": 4}, ("hex", {"board_size": 4, "swap": True}), 60),
    ("othello", {}, ("othello", {}), 15),
]


def _random_game(game, num_actions, rng):
    """Plays a game with OpenSpiel: actions, legal moves before each, result of the first player."""
    state, actions, legal = game.new_initial_state(), [], []
    while not state.is_terminal():
        # OpenSpiel's Nim does not limit the stones of a move.
        allowed = [action for action in state.legal_actions() if action < num_actions]
        legal.append(np.isin(np.arange(num_actions), allowed))
        actions.append(rng.choice(allowed))
        state.apply_action(actions[-1])
    return actions, legal, state.returns()[0]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters", "theirs", "num_games"), TABLE)
def test_random_games_match_openspiel(name, parameters, theirs, num_games):
    env, rng = games.make(name, **parameters), random.Random(0)
    num_actions = env.num_actions
    played = [_random_game(pyspiel.load_game(*theirs), num_actions, rng) for _ in range(num_games)]
    lengths = np.array([len(actions) for actions, _, _ in played])
    keys = jax.random.split(jax.random.PRNGKey(0), num_games)
    states, step = jax.jit(jax.vmap(env.init))(keys), jax.jit(jax.vmap(env.step))
    first = np.asarray(states.current_player)
    for ply in range(lengths.max() + 1):
        live, just_over = ply < lengths, ply == lengths
        np.testing.assert_array_equal(states.terminated, ~live)
        ours = np.asarray(states.legal_action_mask)
        for index in np.flatnonzero(live):
            np.testing.assert_array_equal(ours[index], played[index][1][ply])
        for index in np.flatnonzero(just_over):
            result = np.sign(played[index][2])
            assert float(states.rewards[index, first[index]]) == result
            assert float(states.rewards[index, 1 - first[index]]) == -result
        assert not np.asarray(states.rewards)[live].any()
        actions = [a[ply] if ply < len(a) else 0 for a, _, _ in played]
        states = step(states, np.array(actions, np.int32))
