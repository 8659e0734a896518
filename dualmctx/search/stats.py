"""The statistics of one tree: arrays with one entry per node, or per node and action.

Statistics of an edge are stored at its child node: `node_visits[b, n]` is both the visit count of
node n and N(s, a) of the edge into n. Selection reads N and Q of all children of a node, so each
node also has a row with a copy of these numbers. A backup writes one number in each place; it never
reads or writes a whole `[B, N, A]` array.
"""

import dataclasses
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_gather, pair


class Children(NamedTuple):
    """The statistics of the children of one node of every tree; `[B, A]` each.

    Attributes:
      visits: int32, N(s, a); 0 where there is no child.
      qvalues: Q(s, a), from the view of the player to move at s; 0 for unvisited actions.
    """

    visits: Array
    qvalues: Array


class SearchSummary(NamedTuple):
    """The statistics of the root in one tree, with the fields of mctx's summary.

    Attributes:
      visit_counts: `[B, A]` visits of the root's children.
      visit_probs: `[B, A]` the visits divided by their sum; uniform where nothing was visited.
      value: `[B]` value of the root, from the view of the player to move.
      qvalues: `[B, A]` Q of the root's actions; 0 where unvisited.
    """

    visit_counts: Array
    visit_probs: Array
    value: Array
    qvalues: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TreeStats:
    """The statistics of one tree. A node belongs to the tree iff its visit count is positive.

    Attributes:
      node_stats: `[B, N, 2]` float. Entry 0 is the visits (exact up to 2^24): the number of updates
        of the edge into the node; at the root, 1 plus the number of updates of its outgoing edges.
        Entry 1 is the mean of the returns, from the view of the player to move at the node. A
        backup reads and writes both, so they are adjacent in memory.
      children_visits: `[B, N, A]` int16 or int32 (see `allocate`), visits of the children; 0 where
        there is no child.
      children_qvalues: `[B, N, A]` Q(s, a) = r + γ V(s'), from the view of the player to move at s;
        0 for unvisited actions.
      path_visits: `[B, N]` int32, simulations that passed through the node or ended there, whether
        or not it was inside the window of the backup; 1 more at the root. `None` for full backups,
        where it would equal `node_visits`.
      heights: `[B, N]` int32, the largest number of edges that a simulation passed below the node.
        `None` for full backups.
      leaf_visits: `[B, N]` int32, simulations that ended at the node, including the evaluation of
        the root. `None` where it is not needed or follows from the other fields.
      extra: the arrays of each additional statistic by its name, `[B, N, ...]` each; see
        `statistics.Statistic`.
    """

    node_stats: Array
    children_visits: Array
    children_qvalues: Array
    path_visits: Array | None = None
    heights: Array | None = None
    leaf_visits: Array | None = None
    extra: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])

    @property
    def node_visits(self) -> Array:
        """`[B, N]` int32, the visits in `node_stats`."""
        return self.node_stats[..., 0].astype(jnp.int32)

    @property
    def node_values(self) -> Array:
        """`[B, N]`, the means in `node_stats`."""
        return self.node_stats[..., 1]

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields replaced; accepts `node_visits` and `node_values` too."""
        if not changes.keys().isdisjoint({"node_visits", "node_values"}):
            visits = changes.pop("node_visits", self.node_stats[..., 0])
            values = changes.pop("node_values", self.node_stats[..., 1])
            changes["node_stats"] = pair(visits, values)
        return dataclasses.replace(self, **changes)


def read_children(stats: TreeStats, node_index: Array | int) -> Children:
    """Reads the statistics of the children of `[B]` nodes."""
    return Children(
        visits=batched_gather(stats.children_visits, node_index).astype(jnp.int32),
        qvalues=batched_gather(stats.children_qvalues, node_index),
    )
