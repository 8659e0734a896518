"""Backups from many leaves at once, by sums over the nodes.

Searches with several trees need them. A later tree evaluates many nodes in one call, and its values
change the means of the earlier trees. Each function reads and writes whole `[B, N]` arrays; it runs
once per round and tree.
"""

import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import (
    batched_add,
    batched_gather,
    batched_max,
    batched_scatter,
    by_edge,
)
from dualmctx.search.climb import Level, Sums, check_no_statistics, climb
from dualmctx.search.spec import SearchSpec
from dualmctx.search.tree import Tree, TreeStats, replace_stats


def backup_leaves(spec: SearchSpec, tree: Tree, leaves: Array, is_active: Array) -> Tree:
    """Backs up many leaves with the same result as one after the other.

    Args:
      spec: the window, as in `backup`, and the tree that is updated.
      tree: the trees; values are from the view of the player to move at each node.
      leaves: `[B, K]` int32, evaluated nodes.
      is_active: `[B, K]` bool, false for leaves to ignore.

    Returns:
      The trees, with the statistics of that tree changed.

    Raises:
      ValueError: if the tree has additional statistics.
    """
    stats = tree.stats[spec.tree_index]
    check_no_statistics(stats, "several leaves are backed up at once")
    values = batched_gather(tree.raw_values, leaves)
    sums = spec.backend.sum_paths(spec, tree, leaves, values, is_active, with_rewards=True)
    visits = stats.node_visits + sums.visits
    total = stats.node_visits * stats.node_values + sums.returns
    node_values = jnp.where(sums.visits > 0, total / jnp.maximum(visits, 1), stats.node_values)
    new = _copy_to_rows(tree, stats.replace(node_visits=visits, node_values=node_values))
    if stats.path_visits is not None and stats.heights is not None:
        new = new.replace(
            path_visits=stats.path_visits + sums.passes,
            heights=jnp.maximum(stats.heights, sums.heights),
        )
    return replace_stats(tree, spec.tree_index, _count_leaves(new, leaves, is_active))


def correct_leaves(
    spec: SearchSpec,
    tree: Tree,
    leaves: Array,
    change: Array,
    is_active: Array,
) -> Tree:
    """Corrects the means of a tree after the raw values of leaves changed.

    For each simulation that ended at the leaf, the signed change is added to the sum of returns of
    the leaf and of each ancestor that the backup reached. Counts do not change. A leaf that the
    tree has not visited has no effect.

    Args:
      spec: the window of the tree's backups, and the tree that is corrected.
      tree: the trees.
      leaves: `[B, K]` int32, nodes whose raw value changed.
      change: `[B, K]` the change, from the view of the player to move at the leaf.
      is_active: `[B, K]` bool, false for leaves to ignore.

    Returns:
      The trees, with means of that tree changed.

    Source: Kadam, Xu, Lieberherr 2021, section 3, V = αV_sub + (1−α)V_full. Our reading: the
    ancestors change as well.
    """
    stats = tree.stats[spec.tree_index]
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
    sums = spec.backend.sum_paths(spec, tree, leaves, change, is_active, with_rewards=False)
    values = stats.node_values + sums.returns / jnp.maximum(stats.node_visits, 1)
    return replace_stats(
        tree, spec.tree_index, _copy_to_rows(tree, stats.replace(node_values=values))
    )


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


def _count_leaves(stats: TreeStats, leaves: Array, is_active: Array) -> TreeStats:
    """Counts the simulations that end at `[B, K]` nodes, if the tree has `leaf_visits`."""
    if stats.leaf_visits is None:
        return stats
    batch = jnp.arange(leaves.shape[0])[:, None]
    target = jnp.where(is_active, leaves, stats.leaf_visits.shape[1])
    return stats.replace(leaf_visits=stats.leaf_visits.at[batch, target].add(1, mode="drop"))


def sum_paths(
    spec: SearchSpec,
    tree: Tree,
    leaves: Array,
    values: Array,
    is_active: Array,
    *,
    with_rewards: bool,
) -> Sums:
    """Climbs from all leaves at once and adds up, for each node, the paths through it.

    Args:
      spec: the window, as in `backup`.
      tree: the trees.
      leaves: `[B, K]` int32, the nodes at which the paths start.
      values: `[B, K]` the values at these nodes.
      is_active: `[B, K]` bool, false for leaves to ignore.
      with_rewards: as in `climb`.
    """
    sums = no_paths(tree)
    return add_paths(spec, tree, leaves, values, is_active, sums, with_rewards=with_rewards)


def no_paths(tree: Tree) -> Sums:
    """Returns the sums over no path."""
    zeros = jnp.zeros(tree.edges.shape, jnp.int32)
    return Sums(jnp.zeros_like(tree.raw_values), zeros, zeros, zeros)


def add_paths(
    spec: SearchSpec,
    tree: Tree,
    leaves: Array,
    values: Array,
    is_active: Array,
    sums: Sums,
    *,
    with_rewards: bool,
) -> Sums:
    """Adds paths to sums; the other arguments are those of `sum_paths`."""

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
        window=spec.window,
        with_rewards=with_rewards,
    )
