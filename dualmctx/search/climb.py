"""The climb: the one loop from nodes up to their roots."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.tree import Edge, Tree, edge_into

C = TypeVar("C")


class Level(NamedTuple):
    """One level of a climb: a node of each path and the edge into it.

    The arrays have the shape of the climb's starting nodes, `[B]` or `[B, K]`.

    Attributes:
      leaf: int32, the node at which the path starts.
      node: int32, the node of this level; 0 where `is_active` is false.
      edge: the edge into the node; its parent is -1 at the root.
      value: the value that arrives at the node, seen by the player to move there.
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
        """The value that arrives at the parent, r + γ · `value`, seen by the player there."""
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
    """Climbs from nodes to their roots, all paths one level per step.

    At each level with an edge of reward r and discount γ, the value G becomes r + γ G for the next
    level.

    Args:
      tree: the trees, whose edges are read.
      leaves: `[B]` or `[B, K]` int32, the nodes at which the paths start.
      values: of the shape of `leaves`, the values that start there.
      carry: a pytree that `update_fn` updates.
      update_fn: maps the carry and a level to the new carry. It must ignore paths where the level
        is not active.
      is_active: bool of the shape of `leaves`, the paths to climb; all if `None`.
      window: levels whose edge is among this many edges above the leaf are inside; `None` for all.
        The root is inside iff the edge that leaves it is.
      delays: int32 of the shape of `leaves`, the step in which each path starts; `None` for 0.
      with_rewards: whether G becomes r + γ G or, if false, γ G.

    Returns:
      The carry after all paths have arrived at their roots.
    """

    def body(state: tuple[C, Array, Array, Array]) -> tuple[C, Array, Array, Array]:
        carry, node, value, height = state
        climbs = node != Tree.NO_PARENT
        if delays is not None:
            climbs &= height >= delays
        inside = jnp.maximum(node, Tree.ROOT_INDEX)
        is_inside = climbs
        if window is not None:
            # A node stands for its incoming edge, which is one further from the leaf than the node.
            is_inside = climbs & (height + (inside != Tree.ROOT_INDEX) <= window)
        edge = edge_into(tree, inside)
        level = Level(leaves, inside, edge, value, height, climbs, is_inside)
        carry = update_fn(carry, level)
        above = level.value_above if with_rewards else edge.discount * value
        if delays is not None:
            above = jnp.where(climbs, above, value)
        return carry, jnp.where(climbs, edge.parent, node), above, height + 1

    def climbs_on(state: tuple[C, Array, Array, Array]) -> Array:
        return jnp.any(state[1] != Tree.NO_PARENT)

    node = leaves if is_active is None else jnp.where(is_active, leaves, Tree.NO_PARENT)
    return jax.lax.while_loop(climbs_on, body, (carry, node, values, jnp.int32(0)))[0]
