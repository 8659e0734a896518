"""The arrays of the tree: allocation, reading and export."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

from dualmctx import Embedding, Tree, get_subtree, played_actions, to_mctx
from dualmctx.search.expand import allocate
from dualmctx.search.node import Node
from dualmctx.search.tree import get_state, replace_stats

LOWEST = float(jnp.finfo(jnp.float32).min)


@functools.partial(jax.jit, static_argnums=0)
def small_tree(num_trees: int = 1) -> Tree:
    """Two trees of four slots; the first one is 0 -(2)-> 1 -(0)-> 2, the second a root.

    Node 2 is terminal, and no layer but the first has visited it.
    """
    state = {"a": jnp.array([7, 8]), "b": jnp.array([[1.0, 2.0], [3.0, 4.0]])}
    tree = allocate(
        jnp.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]),
        jnp.array([0.5, -0.25]),
        Embedding(state=state, activations=jnp.array([[70.0], [80.0]])),
        num_nodes=4,
        invalid_actions=jnp.array([[0, 0, 0], [0, 1, 1]]),
        num_trees=num_trees,
        extra_data=jnp.array([5, 6]),
    )
    tree = tree.replace(
        edges=tree.edges.at[0, 1:3].set(jnp.array([2, 3])),
        children_index=tree.children_index.at[0, 0, 2].set(1).at[0, 1, 0].set(2),
        children_prior=tree.children_prior.at[0, 1].set(jnp.array([1e-30, 1.0, 0.0])),
        transitions=tree.transitions.at[0, 1:3].set(jnp.array([[0.125, -1.0], [1.0, 0.0]])),
        raw_values=tree.raw_values.at[0, 1:3].set(jnp.array([0.75, 0.0])),
    )
    for i, (visits, values) in enumerate(
        [([3, 2, 1], [0.5, 0.875, 0.0]), ([2, 1, 0], [0.25, 0.75, 0.0])][:num_trees]
    ):
        stats = tree.stats[i]
        numbers = jnp.array([visits, values]).T
        stats = stats.replace(node_stats=stats.node_stats.at[0, :3].set(numbers))
        for row, action, child in [(0, 2, 1), (1, 0, 2)]:
            if visits[child]:
                qvalue = tree.rewards[0, child] + tree.discounts[0, child] * values[child]
                stats = stats.replace(
                    children_visits=stats.children_visits.at[0, row, action].set(visits[child]),
                    children_qvalues=stats.children_qvalues.at[0, row, action].set(qvalue),
                )
        tree = replace_stats(tree, i, stats)
    return tree


@pytest.mark.slow
def test_qvalue_of_an_unvisited_child_is_zero() -> None:
    """Node 2 exists and has a reward, but the second tree has not visited it."""
    tree = small_tree(num_trees=2)
    below = jnp.array([1, 0])
    assert Node(tree, below).qvalues.tolist() == [[1, 0, 0], [0, 0, 0]]
    assert Node(tree, below, tree_index=1).qvalues.tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.slow
def test_trees_of_numpy_arrays_are_read_alike() -> None:
    """As they are after `jax.device_get`."""
    tree, action = small_tree(num_trees=2), jnp.array([2, 0])
    copy = jax.device_get(tree)
    for read in (
        Tree.summary,
        to_mctx,
        played_actions,
        lambda tree: get_subtree(tree, action, reuse_capacity=2),
    ):
        jax.tree.map(np.testing.assert_array_equal, read(copy), read(tree))


@pytest.mark.slow
def test_get_state_omits_activations() -> None:
    tree = small_tree()
    state = get_state(tree, jnp.array([0, 0]))
    assert state.activations is None
    assert state.state["a"].tolist() == [7, 8]
    assert state.state["b"].tolist() == [[1, 2], [3, 4]]
    plain = tree.replace(embeddings=jnp.arange(8).reshape(2, 4))
    assert get_state(plain, jnp.array([2, 1])).tolist() == [2, 5]


@pytest.mark.slow
@pytest.mark.parametrize("tree_index", [0, 1])
def test_to_mctx(tree_index: int) -> None:
    tree = small_tree(num_trees=2)
    exported = to_mctx(tree, tree_index)
    assert isinstance(exported, mctx.Tree)
    stats = tree.stats[tree_index]
    visits, values = ([0, 0, 2], [0, 0, 0.875]) if tree_index == 0 else ([0, 0, 1], [0, 0, 0.75])
    assert exported.children_visits[0, 0].tolist() == visits
    assert exported.children_values[0, 0].tolist() == values
    assert exported.children_rewards[0, :2].tolist() == [[0, 0, 0.125], [1 - tree_index, 0, 0]]
    assert exported.children_discounts[0, :2].tolist() == [[0, 0, -1], [0, 0, 0]]
    assert exported.children_visits[0, 1].tolist() == [1 - tree_index, 0, 0]
    # A node that the tree has not visited is not a child in the export.
    grandchild = 2 if tree_index == 0 else Tree.UNVISITED
    assert exported.children_index[0, :2].tolist() == [[-1, -1, 1], [grandchild, -1, -1]]
    assert exported.parents.tolist() == tree.parents.tolist() == [[-1, 0, 1, -1], [-1] * 4]
    assert exported.action_from_parent.tolist() == [[-1, 2, 0, -1], [-1] * 4]
    assert exported.raw_values is tree.raw_values
    for name in ("embeddings", "root_invalid_actions", "extra_data"):
        assert getattr(exported, name) is getattr(tree, name)
    np.testing.assert_array_equal(exported.node_visits, stats.node_visits)
    np.testing.assert_array_equal(exported.node_values, stats.node_values)
    ours, mctxs = tree.summary(tree_index), exported.summary()
    np.testing.assert_array_equal(mctxs.value, ours.value)
    np.testing.assert_array_equal(mctxs.visit_counts, ours.visit_counts)


def test_to_mctx_turns_probabilities_into_logits() -> None:
    tree = small_tree()
    logits = to_mctx(tree).children_prior_logits
    np.testing.assert_allclose(logits[0, 0], np.log([0.5, 0.25, 0.25]), rtol=1e-6)
    np.testing.assert_allclose(logits[0, 1], [np.log(1e-30), 0, LOWEST], rtol=1e-5)
    assert logits[1, 0].tolist() == [0, LOWEST, LOWEST]
    # As in mctx for unvisited nodes: at empty slots, and outside this tree.
    assert (logits[0, 3] == 0).all()
    assert (logits[1, 1:] == 0).all()
    small = to_mctx(small_tree(num_trees=2), 1).children_prior_logits
    assert (small[0, 2] == 0).all()
    assert small[0, 1].tolist() == logits[0, 1].tolist()
    probs: Any = jax.nn.softmax(logits[:, 0])
    np.testing.assert_allclose(probs, tree.children_prior[:, 0], rtol=1e-6)
    of_logits = to_mctx(tree.replace(prior_is_logits=True))
    assert of_logits.children_prior_logits is tree.children_prior


def test_trees_that_are_too_large_are_refused() -> None:
    """More edges than int32 counts, or more visits than float32 counts."""

    def run(num_nodes: int, num_actions: int) -> Any:
        row, zero = jnp.ones((1, num_actions)), jnp.zeros(1)
        return jax.eval_shape(lambda: allocate(row, zero, zero, num_nodes=num_nodes))

    assert run(2**24, 2).edges.shape == (1, 2**24)
    with pytest.raises(ValueError, match=r"^16777217 nodes are more than the 16777216 visits"):
        run(2**24 + 1, 2)
    with pytest.raises(ValueError, match=r"^50000 nodes of 50000 actions .* max_children"):
        run(50_000, 50_000)
