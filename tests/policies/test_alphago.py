"""AlphaGo: the special cases λ = 0 and λ = 1, rollouts and separate networks.

Whole trees are compared with the twin in tests/search/test_twin.py.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

import games
import hash_model
from dualmctx import Network, make_network, make_search_fn, with_options
from dualmctx.models.network import SeparateTrunks
from dualmctx.models.rollouts import make_rollout_fn
from dualmctx.policies.alphago import AlphaGo
from dualmctx.types import Embedding
from oracle.alphago import HashAlphaGo
from oracle.cases import CALM, RULES
from oracle.compare import assert_twin_agrees


@pytest.mark.slow
def test_published_options_match_twin() -> None:
    policy = with_options(HashAlphaGo(40), dirichlet_fraction=0.0, leaves_per_step=8)
    published = (policy.puct.c_puct, policy.execution.virtual_loss, policy.root.temperature)
    assert published == (5, 3, 0)
    collisions = 0
    for kind in ("same player twice", "one legal action"):
        for result in assert_twin_agrees(policy, RULES[kind], key_seed=6):
            ends = sum(node.discount == 0 for node in result.nodes)
            # One for each node, including the root.
            assert result.search.rollouts == len(result.nodes) - ends
            collisions += result.counters.collisions
    assert collisions > 20


@pytest.mark.slow
def test_rollouts_alone_match_twin() -> None:
    policy = HashAlphaGo(40, **CALM, rollout_mix=1.0)
    for kind in ("same player twice", "often terminal"):
        assert_twin_agrees(policy, RULES[kind], key_seed=6)


def test_full_rollout_mix_ignores_value_head() -> None:
    """Not even NaN reaches the tree, so XLA can drop the network that computes the value."""

    def search(value: float) -> Any:
        def recurrent_fn(*arguments: Any) -> Any:
            output, embedding = hash_model.recurrent_fn(*arguments, 4)
            return output.replace(value=jnp.full_like(output.value, value)), embedding

        root = hash_model.roots(jnp.arange(4), hash_model.Rules(), 4)
        root = root.replace(value=jnp.full(4, value))
        return HashAlphaGo(20, **CALM, rollout_mix=1.0)(
            hash_model.Rules(), jax.random.key(0), root, recurrent_fn
        )

    run = jax.jit(search)
    one, other = run(0.3), run(jnp.nan)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    raw = np.asarray(one.search_tree.raw_values)
    assert set(np.unique(raw)) == {-1.0, 0.0, 1.0}


@functools.cache
def compiled(rollout_policy: Any) -> Any:
    policy = AlphaGo(12, **CALM, rollout_policy=rollout_policy)
    network = make_network(4, (4,), width=8, num_blocks=1, trunk="mlp")
    return network, jax.jit(make_search_fn(games.make("connect2"), network, policy))


def real_search(rollout_policy: str, noise: float = 0.0) -> Any:
    env = games.make("connect2")
    state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), 16))
    network, search = compiled(rollout_policy)
    params = jax.device_get(jax.jit(network.init)(jax.random.key(0), state.observation))
    draws = np.random.default_rng(0)
    params = jax.tree.map(lambda x: x + draws.normal(0, noise, x.shape).astype("f"), params)
    return search(params, jax.random.key(1), state)


@pytest.mark.slow
def test_make_search_fn_passes_rollouts() -> None:
    """An untrained network plays uniformly and returns value 0, so only rollouts give values.

    It has one head, which then plays the rollouts.
    """
    trained, uniform = real_search("intermediate"), real_search("uniform")
    jax.tree.map(np.testing.assert_array_equal, trained.action_weights, uniform.action_weights)
    raw = np.asarray(uniform.search_tree.raw_values)
    assert set(np.unique(raw)) == {-0.5, 0.0, 0.5}
    assert (raw[:, 0] != 0).any()
    # A network with non-uniform outputs plays by them.
    head, uniform = real_search("intermediate", noise=1.0), real_search("uniform", noise=1.0)
    assert (head.search_tree.raw_values[:, 0] != uniform.search_tree.raw_values[:, 0]).any()


@pytest.mark.slow
def test_separate_networks_give_the_tree_of_a_hand_made_model() -> None:
    """The policy of one network, the value of another, rollouts by a third."""
    env = games.make("connect2")
    state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), 8))
    networks = SeparateTrunks(4, "mlp", 8, (0, 1), value_depth=2)
    params = jax.jit(networks.init)(jax.random.key(0), state.observation)
    draws = np.random.default_rng(0)
    params = jax.tree.map(lambda x: x + draws.normal(0, 0.7, x.shape).astype("f"), params)
    policy = AlphaGo(12, **CALM)

    def evaluate(name: str, depth: int, observation: Any) -> Any:
        alone = Network(4, "mlp", 8, depth, (depth,))
        return alone.apply({"params": params["params"][name]}, observation)[0]

    def model(state: Any) -> Any:
        logits = evaluate("networks_1", 1, state.observation).logits
        lowest = jnp.finfo(logits.dtype).min
        value = evaluate("value_network", 2, state.observation).value
        logits = jnp.where(state.legal_action_mask, logits, lowest)
        stored = Embedding(state.replace(observation=None), None)
        return logits, jnp.where(state.terminated, 0.0, value), stored

    def recurrent_fn(_: Any, key: Any, action: Any, embedding: Any) -> Any:
        del key
        before = embedding.state
        after = jax.vmap(env.step)(before, action)
        reward = after.rewards[jnp.arange(len(action)), before.current_player]
        discount = jnp.where(after.terminated, 0.0, -1.0)  # the players take turns
        logits, value, embedding = model(after)
        output = mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=value
        )
        return output, embedding

    def by_hand(key: Any) -> Any:
        rollout = make_rollout_fn(env, Network(4, "mlp", 8, 0, (0,)))
        own = {"params": params["params"]["networks_0"]}
        logits, value, embedding = model(state)
        return policy(
            own,
            key,
            mctx.RootFnOutput(prior_logits=logits, value=value, embedding=embedding),
            recurrent_fn,
            invalid_actions=~state.legal_action_mask,
            rollout_fn=rollout,
        )

    search = make_search_fn(env, networks, policy)
    found = jax.jit(lambda key: search(params, key, state))(jax.random.key(1))
    expected = jax.jit(by_hand)(jax.random.key(1))
    np.testing.assert_array_equal(found.action_weights, expected.action_weights)
    one, other = found.search_tree, expected.search_tree
    np.testing.assert_array_equal(one.stats[0].children_visits, other.stats[0].children_visits)
    np.testing.assert_allclose(one.raw_values, other.raw_values, atol=1e-6)
    np.testing.assert_allclose(one.children_prior, other.children_prior, atol=1e-5)
