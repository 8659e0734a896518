"""The climb from nodes to their roots, which every backup uses, and the statistics it updates."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import any_true, synchronize
from dualmctx.search.tree import Edge, Tree, TreeStats, edge_into, replace_stats

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


class Statistic:
    """A statistic of each node, which a search stores besides visits and means.

    Its arrays are in `TreeStats.extra`. Subtree reuse, masking and memory counts treat them like
    the other arrays of a tree. A selection rule reads them with `Node.statistic`. A search gets its
    statistics from `SearchSpec.statistics`. A statistic is a frozen dataclass.

    Attributes:
      name: the key of its arrays in `TreeStats.extra`.
      in_kernels: whether `start` and `update` run in GPU kernels. They then keep to the operations
        that `gpu.references` lists.
    """

    name: ClassVar[str]
    in_kernels: ClassVar[bool] = False

    def init(self, stats: TreeStats) -> Any:
        """Returns a pytree of `[B, N, ...]` arrays for new trees, which hold only their root."""
        raise NotImplementedError

    def start(self, stats: TreeStats, leaf: Array) -> Any:
        """Returns the carry of `update` at `[B]` leaves, before the first level."""
        del stats, leaf
        return ()

    def update(self, stats: TreeStats, level: Level, values: Any, carry: Any) -> tuple[Any, Any]:
        """Returns the new arrays and carry at one level of a backup, from the leaf to the root.

        Args:
          stats: the statistics of the tree, in which visits and means of this level and of the
            levels below are already updated.
          level: the level of `[B]` paths. Write with `where=level.is_active`, or, to respect the
            window of the backup, with `level.is_inside` or `level.is_edge_inside`.
          values: the arrays of this statistic.
          carry: a pytree of `[B, ...]` arrays, from `start` or from the level below.
        """
        raise NotImplementedError

    def resume(self, stats: TreeStats, values: Any) -> Any:
        """Returns the arrays with which a search from a reused subtree starts."""
        del stats
        return values


def add_statistics(tree: Tree, statistics: Sequence[Statistic], tree_index: int = 0) -> Tree:
    """Allocates the arrays of statistics for one tree; the trees must hold only their roots."""
    stats = tree.stats[tree_index]
    extra = stats.extra | {statistic.name: statistic.init(stats) for statistic in statistics}
    return replace_stats(tree, tree_index, stats.replace(extra=extra))


def resume_statistics(tree: Tree, statistics: Sequence[Statistic], tree_index: int = 0) -> Tree:
    """Adapts statistics to a new search from trees that may hold a reused subtree."""
    stats = tree.stats[tree_index]
    extra = {x.name: x.resume(stats, stats.extra[x.name]) for x in statistics}
    return replace_stats(tree, tree_index, stats.replace(extra=stats.extra | extra))
