"""The climb from nodes to their roots, which every backup uses, and sums over many paths."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import any_true, batched_add, batched_max, synchronize
from dualmctx.search.tree import Edge, Tree, edge_into

C = TypeVar("C")


class Level(NamedTuple):
    """One level of a climb: a node of each path and the edge into it.

    The arrays have the shape of the climb's starting nodes, `[B]` or `[B, K]`.

    Attributes:
      leaf: int32, the node at which the path starts.
      node: int32, the node of this level; 0 where `is_active` is false.
      edge: the edge into the node; its parent is -1 at the root.
      value: the value that arrives at the node, from the view of the player to move there.
      height: scalar int32, the number of levels climbed before this one.
      is_active: bool, whether the path has this level.
      is_inside: bool, whether the path has this level and the backup's window includes it.
    """

    leaf: Array
    node: Array
    edge: Edge
    value: Array
    height: Array
    is_active: Array
    is_inside: Array

    @property
    def is_edge_inside(self) -> Array:
        """Bool, whether the level is inside the window and has an edge: false at the root."""
        return self.is_inside & (self.edge.flat_index != Tree.NO_PARENT)

    @property
    def value_above(self) -> Array:
        """The value that arrives at the parent, r + γ · `value`, from the view of its player."""
        return self.edge.reward + self.edge.discount * self.value


def climb(
    tree: Tree,
    leaves: Array,
    values: Array,
    carry: C,
    update_fn: Callable[[C, Level], C],
    *,
    is_active: Array | None = None,
    window: int | None = None,
    delays: Array | None = None,
    with_rewards: bool = True,
) -> C:
    """Climbs from nodes to their roots, one level of all paths per step.

    From each level to the next, the value G becomes r + γ G, where r and γ are the reward and the
    discount of the edge into the node.

    Args:
      tree: the trees, whose edges are read.
      leaves: `[B]` or `[B, K]` int32, the nodes at which the paths start.
      values: shaped like `leaves`, the values at these nodes.
      carry: a pytree that `update_fn` updates.
      update_fn: maps the carry and a level to the new carry. It must ignore paths for which the
        level is not active.
      is_active: bool, shaped like `leaves`, the paths to climb; all if `None`.
      window: number of edges, counted from the leaf, that are inside the window; `None` for all. A
        level is inside if its edge is; the root is inside iff the last edge of the climb is.
      delays: int32, shaped like `leaves`, the step in which each path starts; `None` for 0.
      with_rewards: whether G becomes r + γ G; if false, it becomes γ G.

    Returns:
      The carry after all paths have reached their roots.
    """

    def body(state: tuple[C, Array, Array, Array]) -> tuple[C, Array, Array, Array]:
        carry, node, value, height = state
        # This level may read an array element that the level below has written.
        synchronize(tree.edges)
        climbs = node != Tree.NO_PARENT
        if delays is not None:
            climbs &= height >= delays
        valid_node = jnp.maximum(node, Tree.ROOT_INDEX)
        is_inside = climbs
        if window is not None:
            # The edge into a node is one edge further from the leaf than the node; the root has
            # none.
            is_inside = climbs & (height + (valid_node != Tree.ROOT_INDEX) <= window)
        edge = edge_into(tree, valid_node)
        level = Level(leaves, valid_node, edge, value, height, climbs, is_inside)
        carry = update_fn(carry, level)
        above = level.value_above if with_rewards else edge.discount * value
        if delays is not None:
            above = jnp.where(climbs, above, value)
        return carry, jnp.where(climbs, edge.parent, node), above, height + 1

    def is_climbing(state: tuple[C, Array, Array, Array]) -> Array:
        return any_true(state[1] != Tree.NO_PARENT)

    node = leaves if is_active is None else jnp.where(is_active, leaves, Tree.NO_PARENT)
    return jax.lax.while_loop(is_climbing, body, (carry, node, values, jnp.int32(0)))[0]


class Sums(NamedTuple):
    """Sums over the paths through each node, `[B, N]` each; for `heights` the maximum."""

    returns: Array
    visits: Array
    passes: Array
    heights: Array


def sum_paths(
    tree: Tree,
    leaves: Array,
    values: Array,
    is_active: Array,
    sums: Sums,
    *,
    window: int | None,
    with_rewards: bool,
) -> Sums:
    """Climbs from all leaves at once and adds, for each node, the paths through it.

    Args:
      tree: the trees.
      leaves: `[B, K]` int32, the nodes at which the paths start.
      values: `[B, K]` the values at these nodes.
      is_active: `[B, K]` bool, false for leaves to ignore.
      sums: the sums to which the paths are added.
      window: as in `backup`.
      with_rewards: as in `climb`.

    Returns:
      The sums.
    """

    def add(sums: Sums, level: Level) -> Sums:
        ones = jnp.ones_like(level.node)
        height = jnp.broadcast_to(level.height, level.node.shape)
        return Sums(
            returns=batched_add(sums.returns, level.node, level.value, level.is_inside),
            visits=batched_add(sums.visits, level.node, ones, level.is_inside),
            passes=batched_add(sums.passes, level.node, ones, level.is_active),
            heights=batched_max(sums.heights, level.node, height, level.is_active),
        )

    return climb(
        tree,
        leaves,
        values,
        sums,
        add,
        is_active=is_active,
        window=window,
        with_rewards=with_rewards,
    )
