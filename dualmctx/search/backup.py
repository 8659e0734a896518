"""The end of a simulation: the new node and the backup, one climb from the leaf to the root."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import (
    batched_gather,
    batched_scatter,
    by_edge,
    gather_pair,
    scatter_pair,
    synchronize,
)
from dualmctx.search.climb import Level, climb
from dualmctx.search.expand import insert_node
from dualmctx.search.spec import SearchSpec
from dualmctx.search.tree import Edge, Tree, TreeStats, replace_stats
from dualmctx.types import LastEdge, NodeInit


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
      leaf: `[B]` int32, the nodes where the simulations ended: new nodes, or existing nodes that
        are terminal or at the largest depth.
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
