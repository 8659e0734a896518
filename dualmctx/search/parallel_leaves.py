"""Leaf-parallel search: selects several leaves of each root and evaluates them in one call.

The leaves of a step are selected one after the other. A selected leaf is pending until its value is
known. While it is pending, each edge of its path has one more visit (a virtual visit) at an
unchanged Q, which is 0 for a new edge. Later selections therefore tend to avoid it. The backup
replaces virtual visits by real ones; after a step there are none. The cost of a step grows with the
number of its leaves and their depth, not with the size of the tree. At each level the backup
compares the K leaves of a root with each other: K² cheap operations.

A descent that ends at a pending leaf is a collision. It is discarded, does not count as a
simulation, and ends the step for its tree. The next step of that tree selects with the new values.
A step therefore has at most K leaves, and every simulation ends where one of the ordinary search
would: at a new node, or at an existing node that is terminal or at the largest depth. Several
descents of a step may end at the same existing node; each is a simulation, because no evaluation is
needed. The first descent of a step cannot collide, so a search takes at most as many steps as
simulations.

With a virtual loss of n_vl > 0, a pending leaf counts as n_vl visits, all of them lost for the
player who moves along the edge:
    N ← N + n_vl;   Q ← (N Q − n_vl) / (N + n_vl)
This lowers Q and assumes values in [-1, 1]. Steps then have more leaves, but the search chooses
worse moves; see docs/which-search.md, "Finished measurements".

Source: Liu et al. 2020 (WU-UCT), "Watch the unobserved", for virtual visits, which they call
unobserved samples. lc0 limits the number of collisions per step; here the first one ends the step.
The virtual loss is that of AlphaGo, Silver et al. 2016, Methods, with n_vl = 3. There it applies to
the statistics of rollouts only; here an edge has one mean of values and rollouts.
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import (
    any_true,
    batched_gather,
    batched_scatter,
    by_edge,
    gather_pair,
    has_earlier,
    is_reference,
    lane_index,
    num_lanes,
    synchronize,
)
from dualmctx.search.backup import write_nodes
from dualmctx.search.climb import Level, climb
from dualmctx.search.expand import Leaves, link, needs_node
from dualmctx.search.keys import fold_in_key
from dualmctx.search.select import descend
from dualmctx.search.spec import SearchSpec
from dualmctx.search.tree import Tree, TreeStats, replace_stats


def select_leaves(
    spec: SearchSpec, rng_key: Any, tree: Tree, first_slot: Array, limit: Array
) -> tuple[Tree, Leaves]:
    """Selects leaves one after the other, each with the virtual visits of those before it.

    The selection of a tree ends at its limit or at a collision. The i-th leaf, if it is new, gets
    slot `first_slot + i`. An empty slot has discount 0, which marks terminal nodes, so a later
    descent that reaches a pending leaf ends there.

    Args:
      spec: the rules; `leaves_per_step`, which is K; the virtual loss; and the tree in which leaves
        are selected, which has visited every existing node.
      rng_key: consumed; each descent has its own key.
      tree: the trees, without virtual visits.
      first_slot: `[B]` int32; this slot and all later ones are empty.
      limit: `[B]` int32, the largest number of leaves in each tree; 0 for a tree that must not
        change.

    Returns:
      The trees with virtual visits in `children_visits` (and `children_qvalues`), and the leaves.
    """
    batch_size = tree.edges.shape[0]
    chex.assert_shape([first_slot, limit], (batch_size,))

    def body(carry: tuple[Array, Tree, Leaves, Array]) -> tuple[Array, Tree, Leaves, Array]:
        i, tree, leaves, is_open = carry
        synchronize(tree.edges)  # The walk reads the virtual visits of the leaf before.
        path = descend(spec, fold_in_key(rng_key, i), tree, is_open)
        is_open &= path.child < first_slot  # Nodes from `first_slot` on are pending.
        is_new = needs_node(path, is_open)
        node = jnp.where(is_new, first_slot + i, jnp.maximum(path.child, 0))
        tree = link(tree, path, node, is_new)
        stats = _add_virtual_visits(spec, tree, node, is_open)
        depth = jnp.where(is_open, path.depth, -1)
        leaf = Leaves(path.parent, path.action, node, depth, is_new)
        leaves = jax.tree.map(lambda x, y: jnp.where(columns == i, y[:, None], x), leaves, leaf)
        return i + 1, replace_stats(tree, spec.tree_index, stats), leaves, is_open & (i + 1 < limit)

    num_leaves = spec.leaves_per_step
    limit = jnp.minimum(limit, num_leaves)
    length = num_lanes(num_leaves) if is_reference(tree.edges) else num_leaves
    zeros = jnp.zeros((batch_size, length), jnp.int32)
    columns = lane_index(zeros.shape)
    leaves = Leaves(zeros, zeros, zeros, zeros - 1, zeros > 0)
    carry = jnp.int32(0), tree, leaves, limit > 0
    _, tree, leaves, _ = jax.lax.while_loop(lambda carry: any_true(carry[3]), body, carry)
    return tree, leaves


def _add_virtual_visits(spec: SearchSpec, tree: Tree, node: Array, is_active: Array) -> TreeStats:
    """Adds virtual visits to each edge above `[B]` active nodes, in the rows of the parents."""
    stats, virtual_loss = tree.stats[spec.tree_index], spec.virtual_loss

    def add(rows: tuple[Array, Array], level: Level) -> tuple[Array, Array]:
        visits, qvalues = rows
        edge = jnp.maximum(level.edge.flat_index, 0)
        old = batched_gather(visits, edge)
        new = old + max(1, virtual_loss)
        visits = batched_scatter(visits, edge, new, level.is_edge_inside)
        if virtual_loss:
            lost = (old * batched_gather(qvalues, edge) - virtual_loss) / new
            qvalues = batched_scatter(qvalues, edge, lost, level.is_edge_inside)
        return visits, qvalues

    rows = by_edge(stats.children_visits), by_edge(stats.children_qvalues)
    # The values are not used, so XLA removes them.
    values = jnp.zeros(node.shape, stats.node_stats.dtype)
    visits, qvalues = climb(tree, node, values, rows, add, is_active=is_active)
    shape = stats.children_visits.shape
    return stats.replace(
        children_visits=visits.reshape(shape), children_qvalues=qvalues.reshape(shape)
    )


def backup_parallel(spec: SearchSpec, tree: Tree, leaves: Leaves) -> Tree:
    """Backs up the values of the leaves, which replaces their virtual visits by real ones.

    The new mean of a node is the mean of all its returns, as if the leaves were backed up one after
    the other. Deeper leaves start earlier, so that all paths through a node reach it in the same
    step, and the node is read and written once.

    Args:
      spec: the tree that is updated.
      tree: the trees after `expand_leaves`; values are from the view of the player to move.
      leaves: `[B, K]` leaves; an existing node may occur several times.

    Returns:
      The trees, with visits and values of that tree changed along the paths.
    """
    stats = tree.stats[spec.tree_index]

    def add(stats: TreeStats, level: Level) -> TreeStats:
        node, climbs = level.node, level.is_active
        same = (node[:, :, None] == node[:, None, :]) & climbs[:, None, :]
        is_first = climbs & ~has_earlier(same)
        visits = jnp.sum(same, axis=-1)
        returns = jnp.sum(jnp.where(same, level.value[:, None, :], 0), axis=-1)
        old_count, old = gather_pair(stats.node_stats, node)
        count = old_count + visits
        mean = old + (returns - visits * old) / jnp.maximum(count, 1)
        return write_nodes(stats, node, level.edge, count, mean, is_first)

    stats = climb(
        tree,
        leaves.node,
        batched_gather(tree.raw_values, leaves.node),
        stats,
        add,
        is_active=leaves.depth >= 0,
        delays=jnp.max(leaves.depth) - leaves.depth,
    )
    return replace_stats(tree, spec.tree_index, stats)
