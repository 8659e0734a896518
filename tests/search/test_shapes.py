"""The arrays of a tree have the documented shapes and types after a search."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hash_model
from dualmctx import AlphaZero, Contempt, Dual, Gumbel, MuZero, Tree, get_subtree
from oracle.cases import grouped

B, A, NUM_SIMULATIONS = 3, 5, 12
RAVE = grouped(minimax_mix=0.4, rave_visits=9.0, dirichlet_fraction=0.0)
POLICIES = {
    "alphazero": (AlphaZero(NUM_SIMULATIONS), A),
    "two children": (AlphaZero(NUM_SIMULATIONS, **grouped(max_children=2)), 2),
    "windowed": (AlphaZero(NUM_SIMULATIONS, **grouped(window=2)), A),
    "several leaves": (AlphaZero(NUM_SIMULATIONS, **grouped(leaves_per_step=4)), A),
    "minimax values and RAVE": (AlphaZero(NUM_SIMULATIONS, **RAVE), A),
    "contempt": (Contempt(NUM_SIMULATIONS, 2), A),
    "kept": (Contempt(NUM_SIMULATIONS, 2, reuse_capacity=4), A),
    "muzero": (MuZero(NUM_SIMULATIONS), A),
    "gumbel": (Gumbel(NUM_SIMULATIONS), A),
    "dual": (Dual((8, 4), num_rounds=2), A),
    "dual, kept": (Dual((8, 4), num_rounds=2, reuse_capacity=4), A),
}
# The arrays of each statistic, after `[B, N]`, by its name.
EXTRA = {
    "minimax": lambda c: [((c,), jnp.float32)],
    "rave": lambda c: [((c, 2), jnp.float32)],
    "frozen": lambda c: [((c,), None), ((), jnp.int8)],
}


def search(policy: Any, search_tree: Any = None) -> Any:
    kept = {} if search_tree is None else {"search_tree": search_tree}
    seeds, key = jnp.arange(B), jax.random.key(0)
    return hash_model.search(policy, hash_model.Rules(), key, seeds, A, **kept)


def assert_documented(tree: Any, num_nodes: int, num_children: int) -> None:
    """Checks shapes and types against the docstrings of `Tree` and `TreeStats`."""
    n, c = (B, num_nodes), (B, num_nodes, num_children)
    assert (tree.num_nodes, tree.num_actions) == (num_nodes, num_children)
    chex.assert_shape([tree.edges, tree.raw_values, tree.parents, tree.rewards], n)
    chex.assert_shape([tree.discounts, tree.action_from_parent], n)
    chex.assert_shape(tree.transitions, (*n, 2))
    chex.assert_shape([tree.children_index, tree.children_prior], c)
    chex.assert_shape(tree.root_invalid_actions, (B, num_children))
    chex.assert_type([tree.edges, tree.parents], jnp.int32)
    chex.assert_type(tree.children_index, jnp.int16)
    chex.assert_tree_shape_prefix(tree.embeddings, n)
    for stats in tree.stats:
        chex.assert_shape(stats.node_stats, (*n, 2))
        chex.assert_type(stats.node_stats, jnp.float32)
        chex.assert_shape([stats.children_visits, stats.children_qvalues], c)
        assert stats.children_visits.dtype in (jnp.int16, jnp.int32)
        chex.assert_shape([stats.node_visits, stats.node_values], n)
        counters = [stats.path_visits, stats.heights, stats.leaf_visits]
        counters = [counter for counter in counters if counter is not None]
        chex.assert_shape(counters, n)
        chex.assert_type(counters, jnp.int32)
        for name, values in stats.extra.items():
            expected = EXTRA[name](num_children)
            for array, (shape, dtype) in zip(jax.tree.leaves(values), expected, strict=True):
                chex.assert_shape(array, (*n, *shape))
                assert array.dtype == (dtype or stats.children_visits.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_shapes_after_a_search_are_the_documented_ones(name: str) -> None:
    policy, num_children = POLICIES[name]
    tree = jax.eval_shape(lambda: search(policy).search_tree)
    capacity = policy.traits.reuse_capacity
    check(tree, 1 + capacity + NUM_SIMULATIONS, num_children)
    if capacity:
        kept = jax.eval_shape(
            lambda: get_subtree(
                search(policy).search_tree, jnp.zeros(B, jnp.int32), reuse_capacity=capacity
            )
        )
        check(kept, 1 + capacity, num_children)
        again = jax.eval_shape(lambda kept: search(policy, kept).search_tree, kept)
        assert jax.tree.structure(again) == jax.tree.structure(tree)
        check(again, 1 + capacity + NUM_SIMULATIONS, num_children)


def check(tree: Tree, num_nodes: int, num_children: int) -> None:
    """Runs the checks under a trace, where properties of a tree of shapes can be computed."""
    jax.eval_shape(lambda tree: assert_documented(tree, num_nodes, num_children), tree)


@pytest.mark.parametrize("name", ["minimax values and RAVE", "contempt"])
def test_statistics_are_those_of_the_policy(name: str) -> None:
    tree = jax.eval_shape(lambda: search(POLICIES[name][0]).search_tree)
    expected = {"frozen"} if name == "contempt" else {"minimax", "rave"}
    assert tree.stats[0].extra.keys() == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["several leaves", "dual"])
def test_embeddings_may_hold_random_keys_and_empty_arrays(name: str) -> None:
    policy, rules = POLICIES[name][0], hash_model.Rules()

    def recurrent_fn(params: Any, rng_key: Any, action: Any, embedding: Any) -> Any:
        output, after = hash_model.recurrent_fn(params, rng_key, action, embedding[0], A)
        return output, (after, jax.vmap(jax.random.fold_in)(embedding[1], action), embedding[2])

    def refine_fn(params: Any, rng_key: Any, embedding: Any) -> Any:
        return hash_model.refine_fn(params, rng_key, embedding[0], A)

    @jax.jit
    def run() -> Any:
        root = hash_model.roots(jnp.arange(B), rules, A)
        keys = jax.random.split(jax.random.key(1), B)
        root = root.replace(embedding=(root.embedding, keys, jnp.zeros((B, 0))))
        later = refine_fn if len(policy.heads) > 1 else None
        output = policy(rules, jax.random.key(0), root, recurrent_fn, later)
        tree = output.search_tree
        is_child, found = tree.parents >= 0, jax.random.key_data(tree.embeddings[1])
        above = jnp.take_along_axis(found, jnp.maximum(tree.parents, 0)[..., None], axis=1)
        fold = jax.vmap(jax.vmap(jax.random.fold_in))
        expected = fold(jax.random.wrap_key_data(above), tree.action_from_parent)
        return is_child, jax.random.key_data(keys), found, jax.random.key_data(expected)

    is_child, first, found, expected = jax.device_get(run())
    np.testing.assert_array_equal(found[:, 0], first)
    assert is_child.sum() > 2 * B
    np.testing.assert_array_equal(found[is_child], expected[is_child])
