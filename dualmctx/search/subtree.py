"""Subtree reuse between moves: the child that was played becomes the new root."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.checks import check, describe, is_whole
from dualmctx.search.arrays import batched_gather, batched_scatter, by_edge, expand_mask
from dualmctx.search.slots import check_row, root_slots
from dualmctx.search.tree import Tree, TreeStats, check_tree, edge_index
from dualmctx.types import Params, SearchFn


def get_subtree(
    tree: Tree, action: Array, *, reuse_capacity: int, is_reset: Array | None = None
) -> Tree:
    """Returns the subtrees below the actions played, as the trees of the next search.

    The nodes of a subtree move to the first slots, in their old order, so parents still come before
    their children, and older nodes before younger ones. The statistics of each node are unchanged,
    including those of the new root, whose visits are those of the edge into it. If a subtree has
    more nodes than `reuse_capacity`, the youngest are dropped. The edges into dropped nodes become
    unvisited, while the nodes above still include them in their counts and means.

    An element has no subtree if `is_reset` is true for it, or if its action leads to no node, leads
    to a terminal node or is not an action of the game. Its tree is then empty: the root has no
    visits.

    Args:
      tree: the trees after a search.
      action: `[B]` integers, the actions played at the roots; -1 for none.
      reuse_capacity: the number of nodes to keep, not counting the root; at least 1. The same
        number as the policy's `reuse_capacity`.
      is_reset: `[B]` bool, elements whose next search is from an unrelated position, such as the
        start of a new game; none if `None`.

    Returns:
      Trees of `1 + reuse_capacity` slots, for the argument `search_tree` of a policy.

    Raises:
      ValueError: if `reuse_capacity` is out of range, or another argument has a wrong type or
        shape.

    Source: Silver et al. 2017 (AlphaGo Zero), "Search algorithm", "Play". The fixed capacity, and
    therefore the dropping of nodes, is our deviation.
    """
    _check_capacity(tree, reuse_capacity)
    slot = root_slots(tree, action)
    is_kept = slot >= 0
    if is_reset is not None:
        check_row(tree, "is_reset", is_reset, jnp.bool_, "booleans")
        is_kept &= ~is_reset
    # An edge from the root has the number of its slot.
    is_top = (tree.edges == slot[:, None]) & (tree.discounts != 0) & is_kept[:, None]
    return _keep(tree, find_descendants(tree.parents, is_top), reuse_capacity)


def compact_tree(tree: Tree, *, reuse_capacity: int) -> Tree:
    """Returns whole trees in their first slots, for a longer search from the same roots.

    Nodes keep their order and their statistics. If a tree has more nodes than `reuse_capacity`, the
    youngest are dropped, as in `get_subtree`. The prior of the root keeps its noise, to which the
    next search would add its own, so search with a policy without noise at the root.

    Args:
      tree: the trees after a search.
      reuse_capacity: the number of nodes to keep, not counting the root; at least 1. The same
        number as the policy's `reuse_capacity`.

    Returns:
      Trees of `1 + reuse_capacity` slots, for the argument `search_tree` of a policy.

    Raises:
      ValueError: if `reuse_capacity` is out of range.
    """
    _check_capacity(tree, reuse_capacity)
    is_root = jnp.arange(tree.num_nodes, dtype=jnp.int32)[None] == Tree.ROOT_INDEX
    is_node = (tree.edges != Tree.NO_PARENT) | is_root
    return _keep(tree, is_node, reuse_capacity)


def empty_tree(search_fn: SearchFn, params: Params, state: Any, *, reuse_capacity: int) -> Tree:
    """Returns empty trees: the initial carry of a loop over moves.

    A policy treats an all-zero tree as nothing to reuse. The function traces a search for its
    shapes but does not run it.

    Args:
      search_fn: a policy with `reuse_capacity`, bound to a game and a network.
      params: the parameters of the network.
      state: `[B]` game states.
      reuse_capacity: the policy's `reuse_capacity`.

    Returns:
      Trees with the shapes that `get_subtree` returns.
    """

    def search_once(params: Params, state: Any) -> Tree:
        tree = search_fn(params, jax.random.key(0), state).search_tree
        return get_subtree(
            tree, jnp.zeros(tree.parents.shape[0], jnp.int32), reuse_capacity=reuse_capacity
        )

    shapes = jax.eval_shape(search_once, params, state)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


# Fields of a tree that have an axis of nodes.
NODE_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(Tree)
    if field.name not in ("root_invalid_actions", "extra_data", "prior_is_logits")
)


def find_descendants(parents: Array, is_top: Array) -> Array:
    """Finds a set of nodes and all nodes below them, by pointer doubling.

    Each step doubles the distance to the ancestor that a node points to, until that ancestor is in
    the set or is the root. The number of steps is therefore about log2 of the capacity.

    Args:
      parents: `[B, N]` int32, -1 for the root and for empty slots.
      is_top: `[B, N]` bool, the set.

    Returns:
      `[B, N]` bool, true for nodes in the set or below one of its nodes. If the root is in the set,
      all entries are true, those of empty slots too.
    """
    num_nodes = parents.shape[1]
    above = jnp.where(
        is_top, jnp.arange(num_nodes, dtype=jnp.int32)[None], jnp.maximum(parents, Tree.ROOT_INDEX)
    )
    for _ in range((num_nodes - 1).bit_length()):
        above = batched_gather(above, above)
    return batched_gather(is_top, above)


def _check_capacity(tree: Tree, reuse_capacity: int) -> None:
    check_tree(tree)
    is_valid = is_whole(reuse_capacity) and 1 <= reuse_capacity < tree.num_nodes
    remedy = f"from 1 to the {tree.num_nodes - 1} nodes that a tree has besides its root"
    check(is_valid, "reuse_capacity", describe(reuse_capacity), remedy)


def _keep(tree: Tree, is_kept: Array, reuse_capacity: int) -> Tree:
    """Returns the trees of a `[B, N]` mask of nodes, the oldest ones, in slots from 0 on."""
    shape = is_kept.shape[0], 1 + reuse_capacity
    rank = jnp.cumsum(is_kept, axis=1, dtype=jnp.int32) - 1
    old = jnp.broadcast_to(jnp.arange(is_kept.shape[1], dtype=jnp.int32), is_kept.shape)
    fits = is_kept & (rank < shape[1])
    source = batched_scatter(jnp.full(shape, Tree.UNVISITED, jnp.int32), rank, old, fits)
    no_invalid = jnp.zeros_like(tree.root_invalid_actions)
    return select_nodes(tree, source).replace(root_invalid_actions=no_invalid)


def select_nodes(tree: Tree, source: Array) -> Tree:
    """Returns the trees of some nodes, with all their statistics, in the given slots.

    Args:
      tree: the trees.
      source: `[B, M]` int32, the node for each new slot; -1 for an empty slot. The node in slot 0
        becomes the root. The parent of each other node is among the nodes.

    Returns:
      Trees of M slots. Edges into other nodes are unvisited.
    """
    index = jnp.broadcast_to(jnp.arange(source.shape[1], dtype=jnp.int32), source.shape)
    is_node, old = source != Tree.UNVISITED, jnp.maximum(source, 0)
    target = batched_scatter(jnp.full_like(tree.edges, Tree.NO_PARENT), old, index, is_node)

    def move(array: Array) -> Array:
        moved = batched_gather(array, old)
        return jnp.where(expand_mask(is_node, moved), moved, jnp.zeros((), moved.dtype))

    moved = tree.replace(**{name: jax.tree.map(move, getattr(tree, name)) for name in NODE_FIELDS})
    has_edge = is_node & (index != Tree.ROOT_INDEX)
    parents = batched_gather(target, jnp.maximum(moved.parents, 0))
    edges = edge_index(tree, parents, moved.action_from_parent)
    # Written by the children, so that edges into dropped nodes stay unvisited.
    children = by_edge(jnp.full_like(moved.children_index, Tree.UNVISITED))
    children = batched_scatter(children, edges, index, has_edge).reshape(moved.children_index.shape)

    def move_stats(stats: TreeStats) -> TreeStats:
        has_child = children != Tree.UNVISITED
        return stats.replace(
            children_visits=jnp.where(has_child, stats.children_visits, 0),
            children_qvalues=jnp.where(has_child, stats.children_qvalues, 0),
        )

    root_edge = jnp.array([0, 1], moved.transitions.dtype)
    return moved.replace(
        edges=jnp.where(has_edge, edges, Tree.NO_PARENT),
        transitions=moved.transitions.at[:, Tree.ROOT_INDEX].set(root_edge),
        children_index=children,
        stats=tuple(move_stats(stats) for stats in moved.stats),
    )
