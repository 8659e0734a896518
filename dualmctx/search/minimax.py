"""Implicit minimax backups: Q is mixed with the minimax value of the tree below the action."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_gather, batched_scatter, by_edge
from dualmctx.search.climb import Level
from dualmctx.search.node import Node
from dualmctx.search.select import QValues
from dualmctx.search.statistics import Statistic
from dualmctx.search.stats import TreeStats


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MinimaxMix(QValues):
    """Q mixed with the minimax value.

    Formula, for visited actions; unvisited ones keep Q:
        Q*(s,a) = (1 − α) Q(s,a) + α (r + γ v(s'))

    where v(s') is the minimax value of the child, from the arrays of `MINIMAX`.

    Source: Lanctot et al. 2014, "Monte Carlo tree search with heuristic evaluations using implicit
    minimax backups", section III.
    """

    mix: Array | float
    """α in [0, 1]; 0.4 in the paper."""
    qvalues: QValues
    """Q."""

    def __call__(self, node: Node) -> Array:
        """Returns the `[B, A]` mixture."""
        mean, minimax = self.qvalues(node), node.statistic(MINIMAX.name)
        return jnp.where(node.visits > 0, (1 - self.mix) * mean + self.mix * minimax, mean)


def _init(stats: TreeStats) -> Array:
    return jnp.zeros_like(stats.children_qvalues)


def _update(stats: TreeStats, level: Level, values: Array, carry: None) -> tuple[Array, None]:
    is_visited = batched_gather(stats.children_visits, level.node) > 0
    row = jnp.where(is_visited, batched_gather(values, level.node), -jnp.inf)
    # Only a leaf can be without visited children; its minimax value is its raw value.
    value = jnp.where(jnp.sum(is_visited, axis=-1) > 0, jnp.max(row, axis=-1), level.value)
    value = level.edge.reward + level.edge.discount * value
    new = batched_scatter(by_edge(values), level.edge.flat_index, value, level.is_edge_inside)
    return new.reshape(values.shape), carry


MINIMAX = Statistic("minimax", _init, _update, in_kernels=True)
"""`[B, N, A]` minimax values r + γ v(s') of visited actions, from the view of the player at s.

Formula, from the leaf up:
    v(s) = max_a r(s,a) + γ(s,a) v(s')   over the visited actions; the raw value if there are none

The discounts give the signs, so a player may move twice in a row. The backup writes the value of
each edge that it updates. With a window, values above the window stay stale, as the means do. The
entries of unvisited actions are undefined.

Source: Lanctot et al. 2014, algorithm 1. There all children of a node are evaluated at once; here
the maximum is over the visited children.
"""
