"""The second opinion at the root: the search equals one from a root that was mixed by hand."""

import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualmctx
import games
import hash_model
from dualmctx import AlphaGo, AlphaZero, Gumbel, MuZero, with_options
from dualmctx.models.costs import move_cost
from dualmctx.models.network import make_network
from dualmctx.policies.root import legal_probabilities
from dualmctx.search.slots import to_slots
from dualmctx.search.tree import is_finite
from pairwise import quick_first

B, A, BETA = 8, 6, 0.4
RULES = hash_model.Rules()
INVALID = np.arange(A) == np.ones((B, 1))
VARIANTS: dict[str, Any] = {
    "alphazero": AlphaZero(6),
    "slots": with_options(AlphaZero(6), max_children=3),
    "gumbel": Gumbel(6),
    "muzero": MuZero(6),
}


def second(policy: Any, **options: Any) -> Any:
    return dataclasses.replace(policy, head=0, root_head=-1, root_mix=BETA, **options)


@functools.cache
def compiled(policy: Any) -> Any:
    def run(root: Any, **arguments: Any) -> Any:
        key = jax.random.PRNGKey(3)
        return hash_model.search(policy, RULES, key, root, A, invalid_actions=INVALID, **arguments)

    return jax.jit(run)


def search(policy: Any, root: Any, **arguments: Any) -> Any:
    return jax.device_get(compiled(policy)(root, **arguments))


@functools.cache
def opinions() -> tuple[Any, tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns `B` roots by the first head, and (prior, value) of both heads."""
    root = hash_model.roots(np.arange(B), RULES, A, np)
    refined = hash_model.refine_fn(RULES, None, root.embedding, A, np)
    own, other = (
        (np.asarray(legal_probabilities(logits, INVALID), np.float64), value)
        for logits, value in ((root.prior_logits, root.value), refined)
    )
    return root, own, other


def mixed_root() -> Any:
    root, own, other = opinions()
    prior, value = (BETA * x + (1 - BETA) * y for x, y in zip(own, other, strict=True))
    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(prior), np.finfo(np.float32).min)
    return root.replace(prior_logits=logits.astype("f4"), value=value.astype("f4"))


@pytest.mark.parametrize("name", quick_first(("alphazero", "gumbel", "muzero", "slots"), 2))
def test_a_second_opinion_equals_a_mixed_root(name: str) -> None:
    # Without noise, because a second opinion takes a key of its own.
    policy = VARIANTS[name].for_evaluation()
    found = search(second(policy), opinions()[0])
    expected = search(policy, mixed_root())
    np.testing.assert_array_equal(found.action, expected.action)
    np.testing.assert_allclose(found.action_weights, expected.action_weights, atol=1e-5)
    chex.assert_trees_all_close(
        found.search_tree.stats, expected.search_tree.stats, rtol=1e-4, atol=1e-5
    )
    alone = search(policy, opinions()[0])
    assert np.any(np.asarray(alone.action_weights) != found.action_weights)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slots", "muzero"])
def test_a_reused_root_gets_the_mixed_prior(name: str) -> None:
    policy = second(VARIANTS[name].for_evaluation(), reuse_capacity=5)
    root = opinions()[0]
    kept = dualmctx.empty_tree(
        lambda _, key, root: compiled(policy).__wrapped__(root, search_tree=None),
        None,
        root,
        reuse_capacity=5,
    )
    first = search(policy, root, search_tree=kept)
    played = first.action
    kept = jax.jit(dualmctx.get_subtree, static_argnames="reuse_capacity")(
        first.search_tree, played, reuse_capacity=5
    )
    output, embedding = hash_model.recurrent_fn(RULES, None, played, root.embedding, A, np)
    new = root.replace(prior_logits=output.prior_logits, value=output.value, embedding=embedding)
    tree = search(policy, new, search_tree=kept).search_tree
    logits, value = hash_model.refine_fn(RULES, None, embedding, A, np)

    @jax.jit
    def priors() -> Any:
        both = [legal_probabilities(x, INVALID) for x in (output.prior_logits, logits)]
        mixed = jnp.log(BETA * both[0] + (1 - BETA) * both[1])
        prior = tree.children_prior[:, 0]
        found = legal_probabilities(prior) if tree.prior_is_logits else prior
        return found, legal_probabilities(to_slots(tree, mixed), tree.root_invalid_actions)

    np.testing.assert_allclose(*priors(), atol=1e-5)
    np.testing.assert_allclose(
        tree.raw_values[:, 0], BETA * output.value + (1 - BETA) * value, atol=1e-5
    )
    assert np.any(np.asarray(kept.stats[0].node_visits[:, 0]) > 1)


@pytest.mark.slow
def test_rollouts_alone_do_not_hide_logits_that_are_not_finite() -> None:
    policy = second(AlphaGo(4, rollout_mix=1.0))
    root = opinions()[0]
    logits = np.where(np.arange(B)[:, None] < 2, np.nan, root.prior_logits)

    @jax.jit
    def run(root: Any) -> Any:
        key, options = jax.random.key(0), {"rollout_fn": lambda *_: jnp.zeros(B)}
        return is_finite(hash_model.search(policy, RULES, key, root, A, **options).search_tree)

    assert run(root.replace(prior_logits=logits)).tolist() == [False] * 2 + [True] * (B - 2)


@pytest.mark.slow
def test_nodes_keep_no_activations_and_a_simulation_costs_the_first_head() -> None:
    env = games.make("connect_four")
    network = make_network(7, (6, 7, 2), width=4, num_blocks=2, num_heads=2)
    policy = second(AlphaZero(4))

    def search() -> Any:
        state = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 2))
        params = network.init(jax.random.PRNGKey(1), state.observation)
        return dualmctx.make_search_fn(env, network, policy)(params, jax.random.PRNGKey(2), state)

    assert jax.eval_shape(search).search_tree.embeddings.activations is None
    assert move_cost(policy, network).blocks == 4


def test_the_function_of_the_second_head_is_required() -> None:
    with pytest.raises(dualmctx.UserError, match="refine_fn"):
        second(AlphaZero(2))(RULES, jax.random.PRNGKey(0), opinions()[0], lambda *_: None)
