"""Implicit minimax backups: Q is mixed with the minimax value of the tree below the action."""

import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_gather, batched_scatter, by_edge
from dualmctx.search.climb import Level
from dualmctx.search.select import QvaluesFn, mean_qvalues
from dualmctx.search.statistics import Statistic, read_statistic
from dualmctx.search.stats import TreeStats
from dualmctx.search.tree import Tree, get_children


def minimax_qvalues(mix: float, qvalues_fn: QvaluesFn = mean_qvalues) -> QvaluesFn:
    """Returns a function that mixes Q with the minimax value.

    Formula, for visited actions; unvisited ones keep Q:
        Q*(s,a) = (1 − α) Q(s,a) + α (r + γ v(s'))

    where v(s') is the minimax value of the child.

    Args:
      mix: α in [0, 1]; 0.4 in the paper.
      qvalues_fn: computes Q.

    Returns:
      The function; it reads the arrays of `MINIMAX`.

    Source: Lanctot et al. 2014, "Monte Carlo tree search with heuristic evaluations using implicit
    minimax backups", section III.
    """

    def qvalues(tree: Tree, node_index: Array, tree_index: int) -> Array:
        mean = qvalues_fn(tree, node_index, tree_index)
        minimax = read_statistic(tree, node_index, MINIMAX.name, tree_index)
        is_visited = get_children(tree, node_index, tree_index).visits > 0
        return jnp.where(is_visited, (1 - mix) * mean + mix * minimax, mean)

    return qvalues


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


MINIMAX = Statistic("minimax", _init, _update)
"""`[B, N, A]` minimax values r + γ v(s') of visited actions, from the view of the player at s.

Formula, from the leaf up:
    v(s) = max_a r(s,a) + γ(s,a) v(s')   over the visited actions; the raw value if there are none

The discounts give the signs, so a player may move twice in a row. The backup writes the value of
each edge that it updates. With a window, values above the window stay stale, as the means do. The
entries of unvisited actions are undefined.

Source: Lanctot et al. 2014, algorithm 1. There all children of a node are evaluated at once; here
the maximum is over the visited children.
"""
