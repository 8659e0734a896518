"""Subtree reuse between moves: the child that was played becomes the root, statistics and all."""

import dataclasses
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather, batched_scatter, by_edge, expand_mask
from dualmctx.search.tree import Tree, TreeStats, edge_index, slot_actions
from dualmctx.types import Params, SearchFn


def get_subtree(
    tree: Tree, action: chex.Array, *, reuse_capacity: int, is_reset: chex.Array | None = None
) -> Tree:
    """Makes the child that each root's action leads to the root, and keeps what lies below it.

    Kept nodes move together into the first slots, in their old order, so that parents still come
    before their children and the older of two nodes is still the older. All that each layer knows
    of a kept node stays as it was, also at the new root, whose count is that of the edge into it.
    Of a subtree with more nodes than `reuse_capacity` the youngest are dropped; the edges into them
    are then unvisited, while the nodes above keep the counts and means that went through there.

    An element whose tree cannot be kept comes back without a node, its root with no visits:
    elements to reset, and those whose action leads to no node or to a terminal one, or is none
    of the game's.

    Args:
      tree: the trees after a search.
      action: `[B]` int32, the actions played at the roots; -1 for none.
      reuse_capacity: number of nodes to keep beside the root, the policy's `reuse_capacity`; at
        least 1.
      is_reset: `[B]` bool, elements that go on from another position, as in a new game.

    Returns:
      Trees of `1 + reuse_capacity` slots, a policy's next `search_tree`.

    Raises:
      ValueError: when `reuse_capacity` is out of range, in one line.

    Source: Silver et al. 2017 (AlphaGo Zero), "Search algorithm", "Play". Trees of a fixed size,
    and so the dropping of nodes, are ours.
    """
    if not 1 <= reuse_capacity < tree.num_nodes:
        remedy = f"from 1 to the {tree.num_nodes - 1} nodes that a tree has beside its root"
        raise ValueError(f"reuse_capacity is {reuse_capacity}; it must be {remedy}")
    child = _played_child(tree, action)
    is_kept = (child != Tree.UNVISITED) & (
        batched_gather(tree.discounts, jnp.maximum(child, 0)) != 0
    )
    if is_reset is not None:
        is_kept &= ~is_reset
    is_top = (jnp.arange(tree.num_nodes)[None] == child[:, None]) & is_kept[:, None]
    return _move(tree, _compact(below(tree.parents, is_top), 1 + reuse_capacity))


def empty_tree(search_fn: SearchFn, params: Params, state: Any, *, reuse_capacity: int) -> Tree:
    """Returns trees of zeros, which a policy takes for no tree: what a loop over moves starts with.

    Only shapes are computed; nothing is searched.

    Args:
      search_fn: a policy with `reuse_capacity`, bound to a game and a network.
      params: the network's.
      state: `[B]` game states.
      reuse_capacity: the policy's `reuse_capacity`.

    Returns:
      Trees as `get_subtree` returns them.
    """

    def kept(params: Params, state: Any) -> Tree:
        tree = search_fn(params, jax.random.key(0), state).search_tree
        return get_subtree(
            tree, jnp.zeros(tree.parents.shape[0], jnp.int32), reuse_capacity=reuse_capacity
        )

    shapes = jax.eval_shape(kept, params, state)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


# Attributes of a tree with an axis of nodes.
BY_NODE = tuple(
    field.name
    for field in dataclasses.fields(Tree)
    if field.name not in ("root_invalid_actions", "extra_data", "prior_is_logits")
)


def below(parents: chex.Array, is_top: chex.Array) -> chex.Array:
    """Finds the nodes of a set and all nodes below them.

    By pointer doubling: each step, a node looks twice as far up as before, until a node of the set
    or the root stops it. So the steps are as many as the capacity has binary digits.

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


def _played_child(tree: Tree, action: chex.Array) -> chex.Array:
    """Returns `[B]` int32, the root's child that an action leads to, -1 if there is none."""
    children = tree.children_index[:, Tree.ROOT_INDEX]
    actions = slot_actions(tree)
    if actions is None:
        is_action = (action >= 0) & (action < tree.num_actions)
        child = batched_gather(children, jnp.where(is_action, action, 0))
        return jnp.where(is_action, child, Tree.UNVISITED)
    # An action appears once among the slots, or not at all.
    is_played = actions[:, Tree.ROOT_INDEX] == action[:, None]
    return jnp.max(jnp.where(is_played, children, Tree.UNVISITED), axis=-1)


class _Slots(NamedTuple):
    """Which node goes where.

    Attributes:
      source: `[B, M]` int32, the old index of the node in each new slot.
      is_node: `[B, M]` bool, false for new slots that stay empty.
      target: `[B, N]` int32, the new index of each old node, -1 for those that are dropped.
    """

    source: chex.Array
    is_node: chex.Array
    target: chex.Array


def _compact(is_kept: chex.Array, num_slots: int) -> _Slots:
    """Moves the kept nodes of `[B, N]` together, the first of them into slot 0."""
    rank = jnp.cumsum(is_kept, axis=1, dtype=jnp.int32) - 1
    fits = is_kept & (rank < num_slots)
    old = jnp.broadcast_to(jnp.arange(is_kept.shape[1], dtype=jnp.int32), is_kept.shape)
    source = batched_scatter(jnp.zeros((is_kept.shape[0], num_slots), jnp.int32), rank, old, fits)
    is_node = jnp.arange(num_slots)[None] < jnp.sum(fits, axis=1, keepdims=True)
    return _Slots(source, is_node, jnp.where(fits, rank, Tree.NO_PARENT))


def _move(tree: Tree, slots: _Slots) -> Tree:
    """Returns the trees with their nodes in other slots; what goes into slot 0 is the root."""

    def move(array: chex.Array) -> chex.Array:
        moved = batched_gather(array, slots.source)
        return jnp.where(expand_mask(slots.is_node, moved), moved, jnp.zeros((), moved.dtype))

    moved = tree.replace(**{name: jax.tree.map(move, getattr(tree, name)) for name in BY_NODE})
    index = jnp.broadcast_to(jnp.arange(slots.source.shape[1], dtype=jnp.int32), slots.source.shape)
    has_edge = slots.is_node & (index != Tree.ROOT_INDEX)
    parents = batched_gather(slots.target, jnp.maximum(moved.parents, 0))
    parents = jnp.where(has_edge, parents, Tree.NO_PARENT)
    # Written from the children, so that edges into dropped nodes are left unvisited.
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
