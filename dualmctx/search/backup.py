"""The end of a simulation: the new node and the backup, one climb from the leaf to the root."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import (
    any_true,
    batched_gather,
    batched_scatter,
    by_edge,
    gather_pair,
    scatter_pair,
    synchronize,
)
from dualmctx.search.climb import Level, climb
from dualmctx.search.expand import insert_node
from dualmctx.search.keys import fold_in_key, select_key
from dualmctx.search.select import Descent
from dualmctx.search.statistics import Statistic
from dualmctx.search.stats import TreeStats
from dualmctx.search.tree import Edge, LastEdge, NodeInit, Tree, replace_stats


def backup(
    tree: Tree,
    leaf: Array,
    is_active: Array | None = None,
    *,
    window: int | None = None,
    statistics: Sequence[Statistic] = (),
    tree_index: int = 0,
) -> Tree:
    """Adds a leaf's value to the leaf and to its ancestors.

    At each node on the way up, with r and γ the reward and discount of the edge into the node:
        V ← (n V + G) / (n + 1);   n ← n + 1;   G ← r + γ G
    G starts as the raw value of the leaf.

    With a window, and with L the depth of the leaf, the edge from the node at depth i to its child
    on the path is updated iff L − i ≤ `window`. The statistics of the root are updated iff the edge
    from the root is. The climb still visits the whole path, because the window does not limit
    `path_visits` and `heights`.

    Args:
      tree: the trees, whose values are from the view of the player to move at each node. For a
        window they must have been allocated with `windowed=True`.
      leaf: `[B]` int32, the nodes where the simulations ended: new nodes, or existing nodes that
        are terminal or at the largest depth.
      is_active: `[B]` bool, elements that may change; all if `None`.
      window: τ, the number of edges updated, counted from the leaf, at least 1; `None` for all.
      statistics: the additional statistics that the climb updates.
      tree_index: the tree that is updated.

    Returns:
      The trees, with the statistics of that tree changed along the paths.

    Source: Silver et al. 2017; the arithmetic equals mctx's bit for bit. Kadam, Xu, Lieberherr
    2021, section 3, for the window. Their formula, read literally, never updates the root. This
    function follows their prose: a window as long as the tree is deep gives the full backup.
    """
    stats = tree.stats[tree_index]

    def update(carry: tuple[TreeStats, list[Any]], level: Level) -> tuple[TreeStats, list[Any]]:
        stats, carries = carry
        stats = _update_mean(stats, level, is_windowed=window is not None)
        extra, new_carries = dict(stats.extra), list[Any]()
        for statistic, old in zip(statistics, carries, strict=True):
            synchronize(tree.edges)  # The statistic may read all that has been written so far.
            values, new = statistic.update(stats, level, extra[statistic.name], old)
            extra[statistic.name] = values
            new_carries.append(new)
        return stats.replace(extra=extra), new_carries

    carries = [statistic.start(stats, leaf) for statistic in statistics]
    value = batched_gather(tree.raw_values, leaf)
    carry = (stats, carries)
    stats, _ = climb(tree, leaf, value, carry, update, is_active=is_active, window=window)
    if stats.leaf_visits is not None:
        count = batched_gather(stats.leaf_visits, leaf) + 1
        where = True if is_active is None else is_active
        counts = batched_scatter(stats.leaf_visits, leaf, count, where)
        stats = stats.replace(leaf_visits=counts)
    return replace_stats(tree, tree_index, stats)


def _update_mean(stats: TreeStats, level: Level, *, is_windowed: bool) -> TreeStats:
    """Updates visits and means at one level and, with a window, path visits and heights."""
    count, old = gather_pair(stats.node_stats, level.node)
    mean = (old * count + level.value) / (count + 1.0)
    if not is_windowed:
        # The raw value of an existing leaf may have changed since its first visit. If it has not,
        # this form leaves the mean unchanged, bit for bit.
        at_leaf = old + (level.value - old) / (count + 1.0)
        mean = jnp.where(level.node == level.leaf, at_leaf, mean)
    stats = write_nodes(stats, level.node, level.edge, count + 1, mean, level.is_inside)
    if stats.path_visits is None or stats.heights is None:
        return stats
    passes = batched_gather(stats.path_visits, level.node) + 1
    heights = jnp.maximum(batched_gather(stats.heights, level.node), level.height)
    return stats.replace(
        path_visits=batched_scatter(stats.path_visits, level.node, passes, level.is_active),
        heights=batched_scatter(stats.heights, level.node, heights, level.is_active),
    )


def count_leaves(stats: TreeStats, leaves: Array, is_active: Array) -> TreeStats:
    """Counts the simulations that end at `[B, K]` nodes, if the tree has `leaf_visits`."""
    if stats.leaf_visits is None:
        return stats
    batch = jnp.arange(leaves.shape[0])[:, None]
    target = jnp.where(is_active, leaves, stats.leaf_visits.shape[1])
    return stats.replace(leaf_visits=stats.leaf_visits.at[batch, target].add(1, mode="drop"))


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


def insert_and_backup(
    tree: Tree,
    path: LastEdge,
    new: NodeInit,
    is_new: Array | None,
    node_index: Array | int,
    is_active: Array | None = None,
    **options: Any,
) -> Tree:
    """Inserts the nodes at the ends of paths and backs up their values.

    Args:
      tree: the trees, with the embeddings of the new nodes.
      path: the last edge of each path.
      new: the evaluations at the ends of the paths.
      is_new: `[B]` bool, elements that get a new node; if `None`, those whose path ends at a node
        that does not exist yet.
      node_index: scalar, the slot for the new nodes.
      is_active: `[B]` bool, elements that may change; all if `None`.
      **options: further arguments of `backup`.

    Returns:
      The trees.
    """
    if is_new is None:
        is_new = path.child == Tree.UNVISITED
    tree, leaf = insert_node(tree, path, new, is_new, node_index)
    synchronize(tree.edges)  # The backup reads the new node.
    return backup(tree, leaf, is_active, **options)


def simulate_existing(
    rng_key: Array,
    tree: Tree,
    descent: Descent,
    first: Array,
    end: Array,
    **options: Any,
) -> tuple[Tree, Array]:
    """Runs simulations in each tree until one would need a new node.

    Args:
      rng_key: consumed; simulation j selects with the key that `simulate` derives from
        `fold_in_key(rng_key, j)`.
      tree: the trees.
      descent: descends from the roots.
      first: `[B]` int32, the number of the first simulation of each tree, at most `end`.
      end: scalar int32; all simulations have smaller numbers.
      **options: further arguments of `backup`.

    Returns:
      The trees; and `[B]` int32, the first simulation of each tree that needs a new node, or `end`.
    """

    def body(carry: tuple[Array, Tree, Array]) -> tuple[Array, Tree, Array]:
        number, tree, next_number = carry
        synchronize(tree.edges)  # The walk reads the backup of the simulation before.
        key = select_key(fold_in_key(rng_key, number))
        is_active = next_number == number
        path = descent(key, tree, is_active)
        is_active &= path.child != Tree.UNVISITED
        tree = backup(tree, jnp.maximum(path.child, 0), is_active, **options)
        return number + 1, tree, jnp.where(is_active, number + 1, next_number)

    def is_running(carry: tuple[Array, Tree, Array]) -> Array:
        number, _, next_number = carry
        return any_true((next_number >= number) & (number < end))

    _, tree, next_number = jax.lax.while_loop(is_running, body, (jnp.min(first), tree, first))
    return tree, next_number
