"""The contract of pgx environments; `test_games_check.py` checks that of this package."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pytest
from pgx._src import api_test

import games

OURS = [("connect2", {}), ("nim", {"pile": 1, "max_take": 5}), ("hsr", {"k": 1, "q": 3, "n": 2})]


def _random_actions(rng_key, mask):
    return jax.random.categorical(rng_key, jnp.where(mask, 0.0, -jnp.inf), axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), OURS)
def test_pgx_contract(name, parameters, monkeypatch):
    names = (*get_args(pgx.EnvId), "connect2", "nim", "hsr")
    monkeypatch.setattr(api_test, "EnvId", Literal[names])
    # pgx 2.6.0 samples over axis 1 of a mask that may have only one axis; newer JAX rejects that.
    monkeypatch.setattr(api_test, "act_randomly", jax.jit(_random_actions))
    env = games.make(name, **parameters)
    api_test.api_test(env, num=2)
    state = env.init(jax.random.PRNGKey(0))
    assert (env.id, state.env_id, env.version, env.num_players) == (name, name, "v0", 2)
    assert state.observation.shape == env.observation_shape
    assert state.observation.dtype == bool
    assert state.legal_action_mask.shape == (env.num_actions,)


def test_observation_is_from_the_view_of_the_mover():
    env = games.make("connect2")
    state = env.init(jax.random.PRNGKey(6))
    for action, mine, theirs in [(0, [], [0]), (2, [0], [2]), (3, [2], [0, 3])]:
        state = env.step(state, action)
        expected = np.zeros((2, 4), bool)
        expected[0, mine], expected[1, theirs] = True, True
        np.testing.assert_array_equal(state.observation, expected.ravel())


def test_nim_observation_is_the_pile():
    env = games.make("nim", pile=6)
    state = env.step(env.init(jax.random.PRNGKey(7)), 1)
    assert np.flatnonzero(state.observation).tolist() == [4]


def test_hsr_observation_encodes_role_and_position():
    env = games.make("hsr", k=2, q=3, n=5)
    state = env.init(jax.random.PRNGKey(8))
    starts = np.cumsum([0, 2, 3, 4, 5])

    def decoded(observation):
        assert observation.shape == (2 + 3 + 3 + 2 * 5 + 1,)
        role, k, q, n, m = np.flatnonzero(observation) - starts
        return role, k, q, n + 1, m

    assert decoded(state.observation) == (0, 2, 3, 5, 0)
    state = env.step(state, 1)
    assert decoded(state.observation) == (1, 2, 3, 5, 2)
    assert decoded(env.step(state, 4).observation) == (0, 1, 2, 2, 0)
    assert decoded(env.step(state, 5).observation) == (0, 2, 2, 3, 0)
