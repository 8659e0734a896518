"""Backup: what a simulation's result changes on the way up, in full or within a window."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather, batched_scatter, by_edge, pair
from dualmctx.search.tree import Edge, Tree, TreeStats, edge_into, replace_stats


def backup(
    tree: Tree, leaf: chex.Array, is_active: chex.Array | None = None, *, tree_index: int = 0
) -> Tree:
    """Adds a leaf's value to the leaf and to all of its ancestors.

    Going up, with G the leaf's raw value and r, γ an edge's reward and discount:
        G ← r + γ G;   V ← (n V + G) / (n + 1);   n ← n + 1

    Args:
      tree: the trees; values from the view of the player to move at each node.
      leaf: `[B]` int32, where the simulations ended: new nodes, or old ones that are terminal or
        at the largest depth.
      is_active: `[B]` bool, elements that may change; all if `None`.
      tree_index: the tree that is updated.

    Returns:
      The trees with visits and values of that layer changed along the paths.

    Source: Silver et al. 2017; the arithmetic is mctx's, to the last bit.
    """
    active = jnp.ones(leaf.shape, bool) if is_active is None else is_active

    def body(carry: tuple) -> tuple:
        stats, node, value = carry
        climbs = node != Tree.NO_PARENT
        inside = jnp.maximum(node, 0)
        count, mean = _unpack(batched_gather(stats.node_stats, inside))
        # The leaf's mean too: an old leaf's raw value may have changed since it was first counted.
        # Where it has not, this form of the mean leaves it as it is, to the last bit.
        at_leaf = mean + (value - mean) / (count + 1.0)
        above = (mean * count + value) / (count + 1.0)
        mean = jnp.where(inside == leaf, at_leaf, above)
        edge = edge_into(tree, inside)
        stats = write_nodes(stats, inside, edge, count + 1, mean, climbs)
        value = edge.reward + edge.discount * value
        return stats, jnp.where(climbs, edge.parent, node), value

    node = jnp.where(active, leaf, Tree.NO_PARENT)
    carry = (tree.stats[tree_index], node, batched_gather(tree.raw_values, leaf))
    stats = jax.lax.while_loop(lambda carry: jnp.any(carry[1] != Tree.NO_PARENT), body, carry)[0]
    stats = _count_leaves(stats, leaf[:, None], active[:, None])
    return replace_stats(tree, tree_index, stats)


def _count_leaves(stats: TreeStats, leaves: chex.Array, is_active: chex.Array) -> TreeStats:
    """Counts the simulations that end at `[B, K]` nodes, where a layer keeps that count."""
    if stats.leaf_visits is None:
        return stats
    batch = jnp.arange(leaves.shape[0])[:, None]
    target = jnp.where(is_active, leaves, stats.leaf_visits.shape[1])
    return stats.replace(leaf_visits=stats.leaf_visits.at[batch, target].add(1, mode="drop"))


def _unpack(stats: chex.Array) -> tuple[chex.Array, chex.Array]:
    return stats[..., 0], stats[..., 1]


def write_nodes(
    stats: TreeStats,
    node: chex.Array,
    edge: Edge,
    count: chex.Array,
    mean: chex.Array,
    where: chex.Array,
) -> TreeStats:
    """Writes visits and values of `[B]` or `[B, K]` nodes, there and in their parents' rows."""
    has_edge = where & (edge.index != Tree.NO_PARENT)

    def row(array: chex.Array, new: chex.Array) -> chex.Array:
        return batched_scatter(by_edge(array), edge.index, new, has_edge).reshape(array.shape)

    return stats.replace(
        node_stats=batched_scatter(stats.node_stats, node, pair(count, mean), where),
        children_visits=row(stats.children_visits, count),
        children_qvalues=row(stats.children_qvalues, edge.reward + edge.discount * mean),
    )


def windowed_backup(
    tree: Tree,
    leaf: chex.Array,
    is_active: chex.Array | None = None,
    *,
    window: int,
    tree_index: int = 0,
) -> Tree:
    """Adds a leaf's value to its nearest ancestors only.

    As `backup`, but with L the leaf's depth, the edge that leaves the i-th node of the path is
    updated iff L − i ≤ `window`; the root's own statistics are, iff its edge is. The whole path is
    still climbed, for the heights and the counts of passes, which the window never cuts short.

    Args:
      tree: the trees, allocated with `windowed=True`.
      leaf: `[B]` int32, where the simulations ended.
      is_active: `[B]` bool, elements that may change; all if `None`.
      window: τ, the number of edges updated, counted from the leaf; at least 1.
      tree_index: the tree that is updated.

    Returns:
      The trees with the statistics of that layer changed.

    Source: Kadam, Xu, Lieberherr 2021, section 3. Their formula, read literally, never updates the
    root; this is the reading of their prose, and a window as long as the tree is deep gives the
    full backup.
    """
    active = jnp.ones(leaf.shape, bool) if is_active is None else is_active

    def body(carry: tuple) -> tuple:
        stats, node, value, height = carry
        climbs = node != Tree.NO_PARENT
        inside = jnp.maximum(node, 0)
        # A node stands for its incoming edge, which is one further from the leaf than the node.
        counts = climbs & (height + (inside != Tree.ROOT_INDEX) <= window)
        count, mean = _unpack(batched_gather(stats.node_stats, inside))
        passes, tallest = (
            batched_gather(stats.path_visits, inside),
            batched_gather(stats.heights, inside),
        )
        edge = edge_into(tree, inside)
        mean = (mean * count + value) / (count + 1.0)
        stats = write_nodes(stats, inside, edge, count + 1, mean, counts)
        stats = stats.replace(
            path_visits=batched_scatter(stats.path_visits, inside, passes + 1, climbs),
            heights=batched_scatter(stats.heights, inside, jnp.maximum(tallest, height), climbs),
        )
        value = edge.reward + edge.discount * value
        return stats, jnp.where(climbs, edge.parent, node), value, height + 1

    node = jnp.where(active, leaf, Tree.NO_PARENT)
    carry = (tree.stats[tree_index], node, batched_gather(tree.raw_values, leaf), jnp.int32(0))
    stats = jax.lax.while_loop(lambda c: jnp.any(c[1] != Tree.NO_PARENT), body, carry)[0]
    stats = _count_leaves(stats, leaf[:, None], active[:, None])
    return replace_stats(tree, tree_index, stats)


class _Sums(NamedTuple):
    """What the paths from many leaves add to each node, all `[B, N]`."""

    returns: chex.Array
    visits: chex.Array
    passes: chex.Array
    heights: chex.Array


def backup_leaves(
    tree: Tree,
    leaves: chex.Array,
    is_active: chex.Array,
    *,
    window: int | None,
    tree_index: int = 0,
) -> Tree:
    """Adds the values of many leaves to their ancestors, as if one after the other.

    Args:
      tree: the trees, values from the view of the player to move at each node.
      leaves: `[B, K]` int32, evaluated nodes.
      is_active: `[B, K]` bool, false for leaves to ignore.
      window: as in `windowed_backup`; `None` for the full backup.
      tree_index: the tree that is updated.

    Returns:
      The trees with the statistics of that layer changed.
    """
    values = batched_gather(tree.raw_values, leaves)
    sums = _sum_paths(tree, leaves, values, is_active, window=window, with_rewards=True)
    stats = tree.stats[tree_index]
    visits = stats.node_visits + sums.visits
    total = stats.node_visits * stats.node_values + sums.returns
    node_values = jnp.where(sums.visits > 0, total / jnp.maximum(visits, 1), stats.node_values)
    new = _copy_to_rows(tree, stats.replace(node_visits=visits, node_values=node_values))
    if stats.path_visits is not None:
        new = new.replace(
            path_visits=stats.path_visits + sums.passes,
            heights=jnp.maximum(stats.heights, sums.heights),
        )
    return replace_stats(tree, tree_index, _count_leaves(new, leaves, is_active))


def write_back(
    tree: Tree,
    leaves: chex.Array,
    change: chex.Array,
    is_active: chex.Array,
    *,
    window: int | None,
    tree_index: int = 0,
) -> Tree:
    """Replaces what leaves once contributed to a tree, after their raw values changed.

    Adds the signed change, once for each simulation that ended at the leaf, to the sum of returns
    of the leaf and of the ancestors that these backups reached; no count changes. A layer that has
    not visited a leaf is left as it is.

    Args:
      tree: the trees.
      leaves: `[B, K]` int32, nodes whose raw value changed.
      change: `[B, K]` by how much, from the view of the player to move at the leaf.
      is_active: `[B, K]` bool, false for leaves to ignore.
      window: the window of the layer's backups, `None` for full ones.
      tree_index: the tree that is corrected.

    Returns:
      The trees with values of that layer changed.

    Source: Kadam, Xu, Lieberherr 2021, section 3, V = αV_sub + (1−α)V_full; that the ancestors
    follow is our reading.
    """
    stats = tree.stats[tree_index]
    visits = batched_gather(stats.node_visits, leaves)
    is_active = is_active & (visits > 0)
    if stats.leaf_visits is not None:
        times = batched_gather(stats.leaf_visits, leaves)
    else:
        # A simulation passes through a node visited before, unless it is at the largest depth.
        has_child = jnp.any(batched_gather(stats.children_visits, leaves) > 0, axis=-1)
        times = jnp.where(has_child, 1, visits)
    change = change * times
    sums = _sum_paths(tree, leaves, change, is_active, window=window, with_rewards=False)
    values = stats.node_values + sums.returns / jnp.maximum(stats.node_visits, 1)
    return replace_stats(tree, tree_index, _copy_to_rows(tree, stats.replace(node_values=values)))


def _copy_to_rows(tree: Tree, stats: TreeStats) -> TreeStats:
    """Copies what stands in the nodes to their parents' rows."""
    has_edge = (tree.edges != Tree.NO_PARENT) & (stats.node_visits > 0)
    qvalues = tree.rewards + tree.discounts * stats.node_values

    def row(array: chex.Array, new: chex.Array) -> chex.Array:
        return batched_scatter(by_edge(array), tree.edges, new, has_edge).reshape(array.shape)

    return stats.replace(
        children_visits=row(stats.children_visits, stats.node_visits),
        children_qvalues=row(stats.children_qvalues, qvalues),
    )


def _sum_paths(
    tree: Tree,
    leaves: chex.Array,
    values: chex.Array,
    is_active: chex.Array,
    *,
    window: int | None,
    with_rewards: bool,
) -> _Sums:
    """Climbs from all leaves at once, a level a step, and sums what each node is to receive."""
    batch = jnp.arange(leaves.shape[0])[:, None]
    visits = jnp.zeros(tree.edges.shape, jnp.int32)
    sums = _Sums(jnp.zeros_like(tree.raw_values), visits, visits, visits)

    def add(sums: _Sums, node: chex.Array, value: chex.Array, height: chex.Numeric) -> _Sums:
        target = jnp.where(node >= 0, node, tree.num_nodes)
        # A node stands for its incoming edge, which is one further from the leaf than the node.
        reach = height + (node != Tree.ROOT_INDEX)
        inside = target if window is None else jnp.where(reach <= window, target, tree.num_nodes)
        return _Sums(
            returns=sums.returns.at[batch, inside].add(value, mode="drop"),
            visits=sums.visits.at[batch, inside].add(1, mode="drop"),
            passes=sums.passes.at[batch, target].add(1, mode="drop"),
            heights=sums.heights.at[batch, target].max(height, mode="drop"),
        )

    def body(carry: tuple) -> tuple:
        sums, node, value, height = carry
        sums = add(sums, node, value, height)
        inside = jnp.maximum(node, 0)
        edge = edge_into(tree, inside)
        value = edge.discount * value
        if with_rewards:
            value += edge.reward
        node = jnp.where(node >= 0, edge.parent, node)
        return sums, node, value, height + 1

    carry = (sums, jnp.where(is_active, leaves, -1), values, jnp.int32(0))
    return jax.lax.while_loop(lambda carry: jnp.any(carry[1] >= 0), body, carry)[0]
