"""Implicit minimax backups: the best line below a node beside the mean of what was seen there."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather, batched_scatter, by_edge
from dualmctx.search.select import QvaluesFn, mean_qvalues
from dualmctx.search.tree import Tree, edge_into, get_children, replace_stats
from dualmctx.types import TrackFn


def minimax_qvalues(mix: float, qvalues_fn: QvaluesFn = mean_qvalues) -> QvaluesFn:
    """Makes Q a mixture of the mean and of the minimax value.

    Formula, for visited actions; others stay as they are:
        Q*(s,a) = (1 − α) Q(s,a) + α (r + γ v(s')),   v(s') the minimax value of the child

    Args:
      mix: α in [0, 1]; 0.4 in the paper.
      qvalues_fn: makes Q.

    Returns:
      What stands for Q in a selection rule. It reads `TreeStats.children_minimax`.

    Source: Lanctot et al. 2014, "Monte Carlo tree search with heuristic evaluations using implicit
    minimax backups", section III.
    """

    def qvalues(tree: Tree, node_index: chex.Array, tree_index: int) -> chex.Array:
        mean = qvalues_fn(tree, node_index, tree_index)
        minimax = batched_gather(tree.stats[tree_index].children_minimax, node_index)
        is_visited = get_children(tree, node_index, tree_index).visits > 0
        return jnp.where(is_visited, (1 - mix) * mean + mix * minimax, mean)

    return qvalues


def follow_minimax(*, window: int | None, tree_index: int = 0) -> TrackFn:
    """Makes what keeps `TreeStats.children_minimax` after a backup, in scalars and rows.

    Formula, going up from the leaf:
        v(s) = max_a r(s,a) + γ(s,a) v(s')   over the visited actions; without any, the raw value

    Signs come from the discounts, so that a player may move twice. Each edge of the path is written
    that the backup updates: within a window, where values further up stay stale as the means do.

    Args:
      window: edges written, counted from the leaf; `None` for all.
      tree_index: the tree that is read and written.

    Returns:
      The function.

    Source: Lanctot et al. 2014, algorithm 1. There a node's children are all evaluated at once;
    here only those that were visited take part in the maximum.
    """

    def track(tree: Tree, leaf: chex.Array) -> Tree:
        stats = tree.stats[tree_index]

        def body(carry: tuple) -> tuple:
            rows, node, height = carry
            inside = jnp.maximum(node, 0)
            is_visited = batched_gather(stats.children_visits, inside) > 0
            best = jnp.max(jnp.where(is_visited, batched_gather(rows, inside), -jnp.inf), axis=-1)
            value = jnp.where(
                jnp.any(is_visited, axis=-1), best, batched_gather(tree.raw_values, inside)
            )
            edge = edge_into(tree, inside)
            writes = (node != Tree.NO_PARENT) & (edge.index != Tree.NO_PARENT)
            if window is not None:
                writes &= height < window
            value = edge.reward + edge.discount * value
            flat = batched_scatter(by_edge(rows), jnp.maximum(edge.index, 0), value, writes)
            goes_on = writes & (edge.parent != Tree.ROOT_INDEX)
            node = jnp.where(goes_on, edge.parent, Tree.NO_PARENT)
            return flat.reshape(rows.shape), node, height + 1

        carry: Any = (stats.children_minimax, leaf, jnp.int32(0))
        rows = jax.lax.while_loop(lambda c: jnp.any(c[1] != Tree.NO_PARENT), body, carry)[0]
        return replace_stats(tree, tree_index, stats.replace(children_minimax=rows))

    return track
