"""Subtree reuse between moves: the child that was played becomes the root and keeps its subtree."""

# Some functions of jax have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false

import dataclasses
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_gather, batched_scatter, by_edge, expand_mask
from dualmctx.search.slots import slot_of_action
from dualmctx.search.stats import TreeStats
from dualmctx.search.tree import Tree, edge_index
from dualmctx.types import Params, SearchFn


def get_subtree(
    tree: Tree, action: Array, *, reuse_capacity: int, is_reset: Array | None = None
) -> Tree:
    """Makes the child of each root by an action the new root, and keeps the nodes below it.

    The kept nodes move into the first slots, in their old order. So parents still come before their
    children, and the older of two nodes is still the older one. All statistics of a kept node stay
    as they were, also those of the new root, whose count is that of the edge into it. If a subtree
    has more nodes than `reuse_capacity`, the youngest are dropped. The edges into them are then
    unvisited, while the nodes above keep the counts and means of simulations that went through
    them.

    Some elements have no subtree to keep: those to reset, and those whose action leads to no node,
    leads to a terminal node or is not an action of the game. Their trees are empty, and the root
    has no visits.

    Args:
      tree: the trees after a search.
      action: `[B]` int32, the actions played at the roots; -1 for none.
      reuse_capacity: number of nodes to keep besides the root, the policy's `reuse_capacity`; at
        least 1.
      is_reset: `[B]` bool, elements that continue from another position, as in a new game.

    Returns:
      Trees of `1 + reuse_capacity` slots, the next `search_tree` of a policy.

    Raises:
      ValueError: if `reuse_capacity` is out of range.

    Source: Silver et al. 2017 (AlphaGo Zero), "Search algorithm", "Play". The fixed size
    of the trees, and so the dropping of nodes, is ours.
    """
    if not 1 <= reuse_capacity < tree.num_nodes:
        remedy = f"from 1 to the {tree.num_nodes - 1} nodes that a tree has besides its root"
        raise ValueError(f"reuse_capacity is {reuse_capacity}; it must be {remedy}")
    chex.assert_shape(action, (tree.edges.shape[0],))
    child = _played_child(tree, action)
    is_kept = (child != Tree.UNVISITED) & (
        batched_gather(tree.discounts, jnp.maximum(child, 0)) != 0
    )
    if is_reset is not None:
        is_kept &= ~is_reset
    is_top = (jnp.arange(tree.num_nodes)[None] == child[:, None]) & is_kept[:, None]
    return _move(tree, _compact(below(tree.parents, is_top), 1 + reuse_capacity))


def empty_tree(search_fn: SearchFn, params: Params, state: Any, *, reuse_capacity: int) -> Tree:
    """Returns empty trees: the initial carry of a loop over moves.

    A policy treats an all-zero tree as nothing to reuse. The function computes shapes only and does
    not search.

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


def below(parents: Array, is_top: Array) -> Array:
    """Finds the nodes of a set and all nodes below them, by pointer doubling.

    In each step a node looks twice as far up as before, until it meets a node of the set or the
    root. So the number of steps is the number of binary digits of the capacity.

    Args:
      parents: `[B, N]` int32, -1 for the root and for slots without a node.
      is_top: `[B, N]` bool, the set; the root is not in it.

    Returns:
      `[B, N]` bool.
    """
    num_nodes = parents.shape[1]
    above = jnp.where(is_top, jnp.arange(num_nodes)[None], jnp.maximum(parents, Tree.ROOT_INDEX))
    for _ in range((num_nodes - 1).bit_length()):
        above = batched_gather(above, above)
    return batched_gather(is_top, above)


def _played_child(tree: Tree, action: Array) -> Array:
    """Returns `[B]` int32, the root's child that an action leads to, -1 if there is none."""
    slot = slot_of_action(tree, action)
    child = batched_gather(tree.children_index[:, Tree.ROOT_INDEX], jnp.maximum(slot, 0))
    return jnp.where(slot >= 0, child, Tree.UNVISITED).astype(jnp.int32)


class _Relocation(NamedTuple):
    """The new slots of nodes.

    Attributes:
      source: `[B, M]` int32, the old slot of the node in each new slot.
      is_node: `[B, M]` bool, false for new slots that stay empty.
      target: `[B, N]` int32, the new slot of each old node, -1 for nodes that are dropped.
    """

    source: Array
    is_node: Array
    target: Array


def _compact(is_kept: Array, num_slots: int) -> _Relocation:
    """Assigns consecutive slots to the kept nodes of a `[B, N]` mask, slot 0 to the first."""
    rank = jnp.cumsum(is_kept, axis=1, dtype=jnp.int32) - 1
    fits = is_kept & (rank < num_slots)
    old = jnp.broadcast_to(jnp.arange(is_kept.shape[1], dtype=jnp.int32), is_kept.shape)
    source = batched_scatter(jnp.zeros((is_kept.shape[0], num_slots), jnp.int32), rank, old, fits)
    is_node = jnp.arange(num_slots)[None] < jnp.sum(fits, axis=1, keepdims=True)
    return _Relocation(source, is_node, jnp.where(fits, rank, Tree.NO_PARENT))


def _move(tree: Tree, relocation: _Relocation) -> Tree:
    """Returns the trees with their nodes in other slots; the node in slot 0 is the root."""

    def move(array: Array) -> Array:
        moved = batched_gather(array, relocation.source)
        return jnp.where(expand_mask(relocation.is_node, moved), moved, jnp.zeros((), moved.dtype))

    moved = tree.replace(**{name: jax.tree.map(move, getattr(tree, name)) for name in NODE_FIELDS})
    index = jnp.broadcast_to(
        jnp.arange(relocation.source.shape[1], dtype=jnp.int32), relocation.source.shape
    )
    has_edge = relocation.is_node & (index != Tree.ROOT_INDEX)
    parents = batched_gather(relocation.target, jnp.maximum(moved.parents, 0))
    parents = jnp.where(has_edge, parents, Tree.NO_PARENT)
    # Written from the children, so that edges into dropped nodes stay unvisited.
    edges = by_edge(jnp.full_like(moved.children_index, Tree.UNVISITED))
    edges = batched_scatter(
        edges, edge_index(tree, parents, moved.action_from_parent), index, has_edge
    )
    children_index = edges.reshape(moved.children_index.shape)

    def move_stats(stats: TreeStats) -> TreeStats:
        has_child = children_index != Tree.UNVISITED
        return stats.replace(
            children_visits=jnp.where(has_child, stats.children_visits, 0),
            children_qvalues=jnp.where(has_child, stats.children_qvalues, 0),
        )

    return moved.replace(
        parents=parents,
        action_from_parent=jnp.where(has_edge, moved.action_from_parent, Tree.NO_PARENT),
        children_index=children_index,
        rewards=moved.rewards.at[:, Tree.ROOT_INDEX].set(0),
        discounts=moved.discounts.at[:, Tree.ROOT_INDEX].set(1),
        stats=tuple(move_stats(stats) for stats in moved.stats),
        root_invalid_actions=jnp.zeros_like(tree.root_invalid_actions),
    )
