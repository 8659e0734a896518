"""The engine against its slow twin on real games, with a small network of random parameters."""

import functools

import jax
import numpy as np
import pytest

import games
from dualmctx import Dual, make_model, make_network, make_search_fn
from oracle.cases import CALM
from oracle.compare import assert_same_search, run_twin
from oracle.models import GameModel

# More simulations than positions below most roots, so both trees run out of new nodes.
POLICY = Dual((30, 20), 4, value_mix=0.5, action_weights="large_visits", **CALM)
KEY = jax.random.key(7)


@functools.cache
def setup():
    """Returns the game, a network for it, its parameters and a batch of root states."""
    env = games.make("connect2")
    network = make_network(env.num_actions, env.observation_shape, width=8, num_blocks=2)
    states = roots(env, plies=(0, 1, 2))
    params = jax.jit(network.init)(jax.random.key(0), states.observation)
    rng = np.random.default_rng(1)
    # Heads start at zero, with which every search would be the same.
    params = jax.tree.map(lambda x: x + 0.5 * rng.standard_normal(x.shape, np.float32), params)
    return env, network, params, states


def roots(env, plies):
    """Plays a number of random moves from the start of each game; none ends a game here."""
    init, step = jax.jit(env.init), jax.jit(env.step)
    rng = np.random.default_rng(2)
    states = []
    for i, number in enumerate(plies):
        state = init(jax.random.key(i))
        for _ in range(number):
            legal = np.flatnonzero(state.legal_action_mask)
            state = step(state, np.int32(rng.choice(legal)))
        assert not state.terminated
        states.append(state)
    return jax.tree.map(lambda *x: np.stack(x), *states)


@functools.cache
def run_engine(keep_activations=True):
    env, network, params, states = setup()
    search = make_search_fn(env, network, POLICY, keep_activations=keep_activations)
    return jax.tree.map(np.asarray, jax.jit(search)(params, KEY, states))


@pytest.mark.slow
def test_dual_matches_twin_on_game():
    env, network, params, states = setup()
    output, hits = run_engine(), 0
    model = GameModel(make_model(env, network, heads=POLICY.heads))
    for i in range(len(states.terminated)):
        state = jax.tree.map(lambda x, i=i: x[i], states)
        place = (i, len(states.terminated))
        is_legal = np.asarray(state.legal_action_mask)
        result = run_twin(POLICY, model.at(params, state), KEY, place, is_legal)
        assert_same_search(output, i, result)
        hits += result.counters.terminal_hits
    assert hits > 0


@pytest.mark.slow
def test_kept_activations_do_not_change_search():
    """Resuming the trunk from kept activations gives the same search as running it anew."""
    kept = run_engine()
    anew = run_engine(keep_activations=False)
    assert kept.search_tree.embeddings.activations is not None
    assert anew.search_tree.embeddings.activations is None
    np.testing.assert_allclose(kept.action_weights, anew.action_weights, atol=1e-6)
    for one, other in zip(kept.search_tree.stats, anew.search_tree.stats, strict=True):
        np.testing.assert_array_equal(one.node_visits, other.node_visits)
        np.testing.assert_allclose(one.node_values, other.node_values, atol=1e-6)
