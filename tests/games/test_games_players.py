"""Perfect and random players, and the replay of histories."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _play_out(env, careful, other, states, rng_key):
    """Plays on from states with `careful` to move; returns the rewards of `careful`."""
    me = states.current_player

    def ply(carry, key):
        states, total = carry
        keys = jax.random.split(key, len(me))
        mine, theirs = jax.vmap(careful)(keys, states), jax.vmap(other)(keys, states)
        states = jax.vmap(env.step)(states, jnp.where(states.current_player == me, mine, theirs))
        return (states, total + states.rewards[jnp.arange(len(me)), me]), None

    start = states, jnp.zeros(len(me))
    (states, total), _ = jax.lax.scan(ply, start, jax.random.split(rng_key, 20))
    return states.terminated, total


@pytest.mark.slow
def test_perfect_player_keeps_the_value_of_every_position():
    env = games.make("hsr", k=3, q=3, n=8)
    solution = games.solve(env)
    states = games.replay(env, solution.histories, key=jax.random.PRNGKey(1))
    perfect, random = games.perfect_player(env), games.random_player()
    for seed in range(2):
        key = jax.random.PRNGKey(seed)
        over, total = _play_out(env, perfect, random, states, key)
        assert over.all()
        assert (total >= solution.values).all()
        over, total = _play_out(env, perfect, perfect, states, key)
        np.testing.assert_array_equal(total, solution.values)


def _frequencies(player, state, num=3000):
    keys = jax.random.split(jax.random.PRNGKey(0), num)
    actions = jax.vmap(player, (0, None))(keys, state)
    assert actions.dtype == jnp.int32
    return np.bincount(actions, minlength=len(state.legal_action_mask)) / num


def test_players_are_uniform_over_legal_and_over_optimal_moves():
    small, pile = games.make("connect2"), games.make("nim", pile=2, max_take=4)
    for player, env, expected in (
        (games.random_player(), pile, [0.5, 0.5, 0, 0]),
        (games.perfect_player(small), small, [0, 0.5, 0.5, 0]),
    ):
        found = _frequencies(player, env.init(jax.random.PRNGKey(0)))
        assert found == pytest.approx(expected, abs=0.04)


def test_perfect_player_returns_an_action_in_finished_games():
    env = games.make("nim", pile=1)
    over = env.step(env.init(jax.random.PRNGKey(0)), 0)
    action = games.perfect_player(env)(jax.random.PRNGKey(1), over)
    assert 0 <= int(action) < 3
