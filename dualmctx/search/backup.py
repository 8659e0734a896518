"""Backups: from the new node at the end of a simulation, and from many leaves at once.

A backup is a climb from a leaf to the root. Searches with several trees also need backups by sums
over the nodes: a later tree evaluates many nodes in one call, and its values change the means of
the earlier trees. These functions read and write whole `[B, N]` arrays; they run once per round and
tree.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import (
    batched_add,
    batched_gather,
    batched_max,
    batched_scatter,
    by_edge,
    gather_pair,
    pair,
    scatter_pair,
    synchronize,
)
from dualmctx.search.climb import Level, Sums, climb
from dualmctx.search.expand import insert_node
from dualmctx.search.node import LastEdge, NodeInit
from dualmctx.search.spec import SearchSpec
from dualmctx.search.tree import Edge, Tree, TreeStats, replace_stats


def insert_and_backup(
    spec: SearchSpec,
    tree: Tree,
    path: LastEdge,
    new: NodeInit,
    node_index: Array | int,
    is_active: Array | None = None,
) -> Tree:
    """Inserts the nodes at the ends of paths and backs up their values.

    Args:
      spec: see `backup`.
      tree: the trees, with the embeddings of the new nodes.
      path: the last edge of each path.
      new: the evaluations at the ends of the paths.
      node_index: scalar, the slot for the new nodes.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      The trees.
    """
    tree, leaf = insert_node(tree, path, new, node_index, is_active)
    synchronize(tree.edges)  # The backup reads the new node.
    return backup(spec, tree, leaf, is_active)


def backup(spec: SearchSpec, tree: Tree, leaf: Array, is_active: Array | None = None) -> Tree:
    """Adds a leaf's value to the leaf and to its ancestors.

    At each node on the way up, with r and γ the reward and discount of the edge into the node:
        V ← (n V + G) / (n + 1);   n ← n + 1;   G ← r + γ G
    G starts as the raw value of the leaf.

    With a window τ, and with L the depth of the leaf, the edge from the node at depth i to its
    child on the path is updated iff L − i ≤ τ. The statistics of the root are updated iff the edge
    from the root is. The climb still visits the whole path, because the window does not limit
    `path_visits` and `heights`.

    Args:
      spec: the window τ, the additional statistics that the climb updates, and the tree that is
        updated.
      tree: the trees, whose values are from the view of the player to move at each node. For a
        window they must have been allocated with `windowed=True`.
      leaf: `[B]` int32, the nodes where the simulations ended: new nodes, nodes that this tree has
        not visited, terminal nodes, or nodes at the largest depth.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      The trees, with the statistics of that tree changed along the paths.

    Source: Silver et al. 2017; the arithmetic equals mctx's bit for bit. Kadam, Xu, Lieberherr
    2021, section 3, for the window. Their formula, read literally, never updates the root. This
    function follows their prose: a window as long as the tree is deep gives the full backup.
    """
    stats = tree.stats[spec.tree_index]

    def update(carry: tuple[TreeStats, list[Any]], level: Level) -> tuple[TreeStats, list[Any]]:
        stats, carries = carry
        count, mean = _new_mean(spec, stats, level)
        stats = write_nodes(stats, level.node, level.edge, count, mean, level.is_inside)
        stats = _count_path(stats, level)
        extra, new_carries = dict(stats.extra), list[Any]()
        for statistic, old in zip(spec.statistics, carries, strict=True):
            synchronize(tree.edges)  # The statistic may read all that has been written so far.
            values, new = statistic.update(stats, level, extra[statistic.name], old)
            extra[statistic.name] = values
            new_carries.append(new)
        return stats.replace(extra=extra), new_carries

    carry = stats, [statistic.start(stats, leaf) for statistic in spec.statistics]
    value = batched_gather(tree.raw_values, leaf)
    stats, _ = climb(tree, leaf, value, carry, update, is_active=is_active, window=spec.window)
    if stats.leaf_visits is not None:
        count = batched_gather(stats.leaf_visits, leaf) + 1
        where = True if is_active is None else is_active
        counts = batched_scatter(stats.leaf_visits, leaf, count, where)
        stats = stats.replace(leaf_visits=counts)
    return replace_stats(tree, spec.tree_index, stats)


def _new_mean(spec: SearchSpec, stats: TreeStats, level: Level) -> tuple[Array, Array]:
    """Returns the new visits and means at one level."""
    count, old = gather_pair(stats.node_stats, level.node)
    mean = (old * count + level.value) / (count + 1.0)
    if spec.window is None:
        # The raw value of an existing leaf may have changed since its first visit. If it has not,
        # this form leaves the mean unchanged, bit for bit.
        at_leaf = old + (level.value - old) / (count + 1.0)
        mean = jnp.where(level.node == level.leaf, at_leaf, mean)
    return count + 1, mean


def _count_path(stats: TreeStats, level: Level) -> TreeStats:
    """Updates path visits and heights at one level, if the tree has them."""
    if stats.path_visits is None or stats.heights is None:
        return stats
    passes = batched_gather(stats.path_visits, level.node) + 1
    heights = jnp.maximum(batched_gather(stats.heights, level.node), level.height)
    return stats.replace(
        path_visits=batched_scatter(stats.path_visits, level.node, passes, level.is_active),
        heights=batched_scatter(stats.heights, level.node, heights, level.is_active),
    )


def write_nodes(
    stats: TreeStats, node: Array, edge: Edge, count: Array, mean: Array, where: Array
) -> TreeStats:
    """Writes visits and means of `[B]` or `[B, K]` nodes, in the node and in its parent's row."""
    has_edge = where & (edge.flat_index != Tree.NO_PARENT)

    def write_row(array: Array, new: Array) -> Array:
        return batched_scatter(by_edge(array), edge.flat_index, new, has_edge).reshape(array.shape)

    return stats.replace(
        node_stats=scatter_pair(stats.node_stats, node, count, mean, where),
        children_visits=write_row(stats.children_visits, count),
        children_qvalues=write_row(stats.children_qvalues, edge.reward + edge.discount * mean),
    )


def backup_leaves(spec: SearchSpec, tree: Tree, leaves: Array, is_active: Array) -> Tree:
    """Backs up many leaves with the same result as one after the other.

    Args:
      spec: the window, as in `backup`, and the tree that is updated.
      tree: the trees; values are from the view of the player to move at each node.
      leaves: `[B, K]` int32, evaluated nodes.
      is_active: `[B, K]` bool, false for leaves to ignore.

    Returns:
      The trees, with the statistics of that tree changed.
    """
    stats = tree.stats[spec.tree_index]
    values = batched_gather(tree.raw_values, leaves)
    sums = spec.backend.sum_paths(spec, tree, leaves, values, is_active, with_rewards=True)
    visits = stats.node_visits + sums.visits
    total = stats.node_visits * stats.node_values + sums.returns
    node_values = jnp.where(sums.visits > 0, total / jnp.maximum(visits, 1), stats.node_values)
    new = _copy_to_rows(tree, stats.replace(node_stats=pair(visits, node_values)))
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
    stats = stats.replace(node_stats=pair(stats.node_stats[..., 0], values))
    return replace_stats(tree, spec.tree_index, _copy_to_rows(tree, stats))


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
    sums: Sums | None = None,
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
      sums: those over other paths, to which these are added; `None` for none.
      with_rewards: as in `climb`.
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
        no_paths(tree) if sums is None else sums,
        add,
        is_active=is_active,
        window=spec.window,
        with_rewards=with_rewards,
    )


def no_paths(tree: Tree) -> Sums:
    """Returns the sums over no path."""
    zeros = jnp.zeros(tree.edges.shape, jnp.int32)
    return Sums(jnp.zeros_like(tree.raw_values), zeros, zeros, zeros)
