"""Additional statistics of each node, which a search variant stores besides visits and means.

A `Statistic` names its arrays, allocates them and updates them in the climb of the backup. The
arrays are stored in `TreeStats.extra`. Subtree reuse, masking and memory counts treat them like the
other arrays of a tree. A selection rule reads them with `Node.statistic`. A search gets its
statistics from `SearchSpec.statistics`.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from jax import Array

from dualmctx.errors import UserError
from dualmctx.search.climb import Level
from dualmctx.search.stats import TreeStats
from dualmctx.search.tree import Tree, replace_stats


class InitFn(Protocol):
    """Allocates the arrays of a statistic."""

    def __call__(self, stats: TreeStats) -> Any:
        """Returns a pytree of `[B, N, ...]` arrays for new trees, which hold only their root."""
        ...


class StartFn(Protocol):
    """Prepares a climb."""

    def __call__(self, stats: TreeStats, leaf: Array) -> Any:
        """Returns the carry of `UpdateFn` at `[B]` leaves, before the first level."""
        ...


class UpdateFn(Protocol):
    """Updates a statistic at one level of the backup's climb, from the leaf to the root."""

    def __call__(self, stats: TreeStats, level: Level, values: Any, carry: Any) -> tuple[Any, Any]:
        """Returns the new arrays and carry.

        Args:
          stats: the statistics of the tree, in which visits and means of this level and of the
            levels below are already updated.
          level: the level of `[B]` paths. Write with `where=level.is_active`, or, to respect the
            window of the backup, with `level.is_inside` or `level.is_edge_inside`.
          values: the arrays of this statistic.
          carry: a pytree of `[B, ...]` arrays, from `StartFn` or from the level below.
        """
        ...


class ResumeFn(Protocol):
    """Adapts a statistic to a new search from a reused subtree."""

    def __call__(self, stats: TreeStats, values: Any) -> Any:
        """Returns the arrays with which the search starts."""
        ...


def _no_carry(stats: TreeStats, leaf: Array) -> Any:
    del stats, leaf
    return ()


def _unchanged(stats: TreeStats, values: Any) -> Any:
    del stats
    return values


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A statistic of each node.

    Attributes:
      name: the key of its arrays in `TreeStats.extra`.
      init: allocates the arrays.
      update: updates them at each level of a backup.
      start: returns the carry for the first level; by default an empty one.
      resume: adapts the arrays of reused trees to a new search; by default they are unchanged.
      in_kernels: whether `start` and `update` run in GPU kernels. They then keep to the operations
        that `references` lists.
    """

    name: str
    init: InitFn
    update: UpdateFn
    start: StartFn = _no_carry
    resume: ResumeFn = _unchanged
    in_kernels: bool = False


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


def check_no_statistics(stats: TreeStats, reason: str) -> None:
    """Checks that a tree has no additional statistics.

    Raises:
      ValueError: if it has some; the message ends with the reason.
    """
    if stats.extra:
        names = ", ".join(stats.extra)
        raise UserError(f"the tree has the statistics {names}; it must have none, as {reason}")
