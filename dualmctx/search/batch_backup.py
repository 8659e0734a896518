"""Backups from many leaves at once, by sums over the nodes.

Searches with several trees need them. A later tree evaluates many nodes in one call, and its values
change the means of the earlier trees. Each function reads and writes whole `[B, N]` arrays; it runs
once per round and tree.
"""

import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_gather, batched_scatter, by_edge
from dualmctx.search.backup import count_leaves
from dualmctx.search.climb import Sums, sum_paths
from dualmctx.search.dispatch import choose
from dualmctx.search.kernels import sum_paths as kernel_sum_paths
from dualmctx.search.statistics import check_no_statistics
from dualmctx.search.stats import TreeStats
from dualmctx.search.tree import Tree, replace_stats
from dualmctx.types import Kernels


def backup_leaves(
    tree: Tree,
    leaves: Array,
    is_active: Array,
    *,
    window: int | None,
    tree_index: int = 0,
    kernels: Kernels = "off",
) -> Tree:
    """Backs up many leaves with the same result as one after the other.

    Args:
      tree: the trees; values are from the view of the player to move at each node.
      leaves: `[B, K]` int32, evaluated nodes.
      is_active: `[B, K]` bool, false for leaves to ignore.
      window: as in `backup`; `None` for the full backup.
      tree_index: the tree that is updated.
      kernels: whether the climb runs in a GPU kernel.

    Returns:
      The trees, with the statistics of that tree changed.

    Raises:
      ValueError: if the tree has additional statistics.
    """
    stats = tree.stats[tree_index]
    check_no_statistics(stats, "several leaves are backed up at once")
    values = batched_gather(tree.raw_values, leaves)
    sums = _sum_paths(tree, leaves, values, is_active, kernels, window=window, with_rewards=True)
    visits = stats.node_visits + sums.visits
    total = stats.node_visits * stats.node_values + sums.returns
    node_values = jnp.where(sums.visits > 0, total / jnp.maximum(visits, 1), stats.node_values)
    new = _copy_to_rows(tree, stats.replace(node_visits=visits, node_values=node_values))
    if stats.path_visits is not None and stats.heights is not None:
        new = new.replace(
            path_visits=stats.path_visits + sums.passes,
            heights=jnp.maximum(stats.heights, sums.heights),
        )
    return replace_stats(tree, tree_index, count_leaves(new, leaves, is_active))


def correct_leaves(
    tree: Tree,
    leaves: Array,
    change: Array,
    is_active: Array,
    *,
    window: int | None,
    tree_index: int = 0,
    kernels: Kernels = "off",
) -> Tree:
    """Corrects the means of a tree after the raw values of leaves changed.

    For each simulation that ended at the leaf, the signed change is added to the sum of returns of
    the leaf and of each ancestor that the backup reached. Counts do not change. A leaf that the
    tree has not visited has no effect.

    Args:
      tree: the trees.
      leaves: `[B, K]` int32, nodes whose raw value changed.
      change: `[B, K]` the change, from the view of the player to move at the leaf.
      is_active: `[B, K]` bool, false for leaves to ignore.
      window: the window of the tree's backups; `None` for full ones.
      tree_index: the tree that is corrected.
      kernels: whether the climb runs in a GPU kernel.

    Returns:
      The trees, with means of that tree changed.

    Source: Kadam, Xu, Lieberherr 2021, section 3, V = αV_sub + (1−α)V_full. Our reading: the
    ancestors change as well.
    """
    stats = tree.stats[tree_index]
    visits = batched_gather(stats.node_visits, leaves)
    is_active = is_active & (visits > 0)
    if stats.leaf_visits is not None:
        times = batched_gather(stats.leaf_visits, leaves)
    else:
        # With a child, only the first simulation of the node ended there. Without a child all of
        # them did: one or, at the largest depth, several.
        has_child = jnp.any(batched_gather(stats.children_visits, leaves) > 0, axis=-1)
        times = jnp.where(has_child, 1, visits)
    change = change * times
    sums = _sum_paths(tree, leaves, change, is_active, kernels, window=window, with_rewards=False)
    values = stats.node_values + sums.returns / jnp.maximum(stats.node_visits, 1)
    return replace_stats(tree, tree_index, _copy_to_rows(tree, stats.replace(node_values=values)))


def _copy_to_rows(tree: Tree, stats: TreeStats) -> TreeStats:
    """Copies the visits and means of all nodes to their parents' rows."""
    has_edge = (tree.edges != Tree.NO_PARENT) & (stats.node_visits > 0)
    qvalues = tree.rewards + tree.discounts * stats.node_values

    def write_row(array: Array, new: Array) -> Array:
        return batched_scatter(by_edge(array), tree.edges, new, has_edge).reshape(array.shape)

    return stats.replace(
        children_visits=write_row(stats.children_visits, stats.node_visits),
        children_qvalues=write_row(stats.children_qvalues, qvalues),
    )


def _sum_paths(
    tree: Tree,
    leaves: Array,
    values: Array,
    is_active: Array,
    kernels: Kernels,
    *,
    window: int | None,
    with_rewards: bool,
) -> Sums:
    """Sums over the paths from leaves, in a kernel if possible."""
    zeros = jnp.zeros(tree.edges.shape, jnp.int32)
    sums = Sums(jnp.zeros_like(tree.raw_values), zeros, zeros, zeros)
    return choose(
        kernels,
        tree,
        (kernel_sum_paths, sum_paths),
        *(tree, leaves, values, is_active, sums),
        window=window,
        with_rewards=with_rewards,
    )
