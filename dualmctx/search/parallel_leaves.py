"""Several leaves of one root per step: selection one after the other, one evaluation for all.

Until its value is known, a selected leaf is pending: it counts as one more visit of every edge of
its path, at the value that the edge had (0 if it is new), so that later selections avoid it. The
backup replaces these virtual visits by real ones, and none is left after a step. The cost of a step
grows with its leaves and their depth, not with the size of the tree; the backup compares the K
leaves of a root with each other at each level, K² cheap operations.

A walk that ends at a pending leaf is a collision. It is no simulation: it is discarded, and the
step ends for its tree, whose next step selects with the new values. So K is the most leaves that a
step has, and every simulation ends where the ordinary search's do: at a new node, or at an old one
that is terminal or at the largest depth. Several walks of a step may end at the same old node; each
is a simulation, as no evaluation is needed. The first walk of a step cannot collide, so a search
ends after at most as many steps as simulations.

With a virtual loss of n_vl the leaf counts as n_vl visits in place of one, all of them lost by the
player who moves along the edge:
    N ← N + n_vl;   Q ← (N Q − n_vl) / (N + n_vl)
which lowers Q too, and takes values to lie in [-1, 1]. Steps then have more leaves, at the expense
of the moves: benchmarks/README.md.

Source: Liu et al. 2020 (WU-UCT), "Watch the unobserved", counts unobserved visits like this.
lc0 bounds the collisions of a step; here the first one ends it. The loss is AlphaGo's, Silver et
al. 2016, Methods, with n_vl = 3; there the rollouts' statistics alone bear it, here an edge has one
sum of both kinds.
"""

from typing import NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather, batched_scatter, by_edge, pair
from dualmctx.search.backup import write_nodes
from dualmctx.search.keys import fold_in_key, repeat_key
from dualmctx.search.tree import Tree, TreeStats, edge_index, edge_into, get_state, replace_stats
from dualmctx.types import EvaluateFn, Params, Path


class DescendFn(Protocol):
    """Walks down from the roots to where a simulation ends."""

    def __call__(self, rng_key: chex.PRNGKey, tree: Tree, is_active: chex.Array) -> Path:
        """Takes a key, consumed by the rules, the trees, and `[B]` bool which of them to walk."""
        ...


class Leaves(NamedTuple):
    """Where the simulations of a step end; `[B, K]` each.

    The simulations of a tree are its first columns, in the order of selection.

    Attributes:
      parent: int32, the node that the last edge leaves.
      action: int32, the action of that edge.
      node: int32, the node that it enters.
      depth: int32, the number of edges, at least 1; -1 in columns without a simulation.
      is_new: bool, whether the node has yet to be evaluated.
    """

    parent: chex.Array
    action: chex.Array
    node: chex.Array
    depth: chex.Array
    is_new: chex.Array

    @property
    def num_simulations(self) -> chex.Array:
        """`[B]` int32, the simulations of each tree."""
        return jnp.sum(self.depth >= 0, axis=-1, dtype=jnp.int32)


def select_leaves(
    rng_key: chex.PRNGKey,
    tree: Tree,
    descend_fn: DescendFn,
    first_slot: chex.Array,
    limit: chex.Array,
    *,
    num_leaves: int,
    virtual_loss: int = 0,
    tree_index: int = 0,
) -> tuple[Tree, Leaves]:
    """Selects leaves one after the other, each under the virtual visits of those before it.

    The selection of a tree ends at its limit or at a collision. The i-th leaf, if it is new, gets
    slot `first_slot + i`. An empty slot's discount is 0, which marks a terminal node, so a later
    walk that comes to a pending leaf ends there.

    Args:
      rng_key: consumed; the walks have keys of their own.
      tree: the trees, without virtual visits.
      descend_fn: how to walk down.
      first_slot: `[B]` int32, from which on the slots are empty.
      limit: `[B]` int32, the most leaves of each tree, 0 for a tree that must not change.
      num_leaves: K, the most leaves of any tree, at least 1.
      virtual_loss: n_vl, at least 0; 0 for virtual visits that leave Q as it is.
      tree_index: the tree that is walked; it has visited every node that exists.

    Returns:
      The trees with virtual visits in `children_visits` (and `children_qvalues`), and the leaves.
    """

    def body(carry: tuple) -> tuple:
        i, tree, leaves, is_open = carry
        path = descend_fn(fold_in_key(rng_key, i), tree, is_open)
        is_open &= path.child < first_slot  # Nodes of this step are pending.
        is_new = is_open & (path.child == Tree.UNVISITED)
        node = jnp.where(is_new, first_slot + i, jnp.maximum(path.child, 0))
        tree = _link(tree, path, node, is_new)
        tree = replace_stats(
            tree, tree_index, _add_virtual_visits(tree, node, is_open, virtual_loss, tree_index)
        )
        depth = jnp.where(is_open, path.depth, -1)
        leaf = Leaves(path.parent, path.action, node, depth, is_new)
        leaves = jax.tree.map(lambda x, y: x.at[:, i].set(y), leaves, leaf)
        return i + 1, tree, leaves, is_open & (i + 1 < limit)

    limit = jnp.minimum(limit, num_leaves)
    zeros = jnp.zeros((limit.shape[0], num_leaves), jnp.int32)
    leaves = Leaves(zeros, zeros, zeros, zeros - 1, zeros > 0)
    carry = jnp.int32(0), tree, leaves, limit > 0
    _, tree, leaves, _ = jax.lax.while_loop(lambda carry: jnp.any(carry[3]), body, carry)
    return tree, leaves


def _link(tree: Tree, path: Path, node: chex.Array, is_new: chex.Array) -> Tree:
    """Connects new nodes with the ends of the paths."""
    edge = edge_index(tree, path.parent, path.action)
    children_index = batched_scatter(by_edge(tree.children_index), edge, node, is_new)
    return tree.replace(
        edges=batched_scatter(tree.edges, node, edge, is_new),
        children_index=children_index.reshape(tree.children_index.shape),
    )


def _add_virtual_visits(
    tree: Tree, node: chex.Array, is_active: chex.Array, virtual_loss: int, tree_index: int
) -> TreeStats:
    """Adds visits to every edge above `[B]` active nodes, in the rows that selection reads."""
    stats = tree.stats[tree_index]

    def body(carry: tuple) -> tuple:
        visits, qvalues, edge = carry
        climbs = edge != Tree.NO_PARENT
        inside = jnp.maximum(edge, 0)
        old = batched_gather(visits, inside)
        new = old + max(1, virtual_loss)
        visits = batched_scatter(visits, inside, new, climbs)
        if virtual_loss:
            lost = (old * batched_gather(qvalues, inside) - virtual_loss) / new
            qvalues = batched_scatter(qvalues, inside, lost, climbs)
        above = batched_gather(tree.edges, jax.lax.div(inside, jnp.int32(tree.num_actions)))
        return visits, qvalues, jnp.where(climbs, above, edge)

    rows = by_edge(stats.children_visits), by_edge(stats.children_qvalues)
    carry = *rows, jnp.where(is_active, batched_gather(tree.edges, node), Tree.NO_PARENT)
    *rows, _ = jax.lax.while_loop(lambda c: jnp.any(c[2] != Tree.NO_PARENT), body, carry)
    visits, qvalues = (x.reshape(stats.children_visits.shape) for x in rows)
    return stats.replace(children_visits=visits, children_qvalues=qvalues)


def expand_leaves(
    params: Params, rng_key: chex.PRNGKey, tree: Tree, evaluate_fn: EvaluateFn, leaves: Leaves
) -> Tree:
    """Evaluates the leaves of a step in one call and writes the new ones, each into its slot.

    Args:
      params: passed on to `evaluate_fn`.
      rng_key: consumed by `evaluate_fn`.
      tree: the trees.
      evaluate_fn: plays actions and evaluates the states reached, `[B·K]` at once. Its results for
        leaves that are not new, and for columns without a simulation, are not used.
      leaves: `[B, K]` leaves.

    Returns:
      The trees; slots without a new leaf stay empty.
    """
    shape = leaves.node.shape
    state = get_state(tree, leaves.parent)
    state = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), state)
    keys = repeat_key(rng_key, shape[1])
    new, embedding = evaluate_fn(params, keys, leaves.action.reshape(-1), state)
    chex.assert_shape(new.prior, (shape[0] * shape[1], tree.num_actions))

    def write(array: chex.Array, rows: chex.Array) -> chex.Array:
        rows = rows.reshape(*shape, *rows.shape[1:])
        return batched_scatter(array, leaves.node, rows, leaves.is_new)

    return tree.replace(
        transitions=write(tree.transitions, pair(new.reward, new.discount)),
        children_prior=write(tree.children_prior, new.prior),
        raw_values=write(tree.raw_values, new.value),
        embeddings=jax.tree.map(write, tree.embeddings, embedding),
    )


def backup_parallel(tree: Tree, leaves: Leaves, *, tree_index: int = 0) -> Tree:
    """Replaces the virtual visits of the leaves and all their ancestors by the leaves' values.

    A node's new mean is that of all its returns, as if the leaves were backed up one after the
    other. All walks climb one level at a time, starting with the deepest leaf, so that those
    through the same node reach it at the same time, and it is read and written once.

    Args:
      tree: the trees after `expand_leaves`; values from the view of the player to move.
      leaves: `[B, K]` leaves; the same old node several times where several walks ended there.
      tree_index: the tree that is updated.

    Returns:
      The trees with visits and values of that layer changed along the paths.
    """
    is_before = jnp.tril(jnp.ones((leaves.node.shape[1],) * 2, bool), -1)

    def body(carry: tuple) -> tuple:
        stats, node, value, level = carry
        climbs = level <= leaves.depth
        same = (node[:, :, None] == node[:, None, :]) & climbs[:, None, :]
        is_first = climbs & ~jnp.any(same & is_before[None], axis=-1)
        visits = jnp.sum(same, axis=-1)
        returns = jnp.sum(jnp.where(same, value[:, None, :], 0), axis=-1)
        old = batched_gather(stats.node_stats, node)
        count = old[..., 0] + visits
        mean = old[..., 1] + (returns - visits * old[..., 1]) / jnp.maximum(count, 1)
        edge = edge_into(tree, node)
        stats = write_nodes(stats, node, edge, count, mean, is_first)
        value = jnp.where(climbs, edge.reward + edge.discount * value, value)
        node = jnp.where(climbs, jnp.maximum(edge.parent, Tree.ROOT_INDEX), node)
        return stats, node, value, level - 1

    value = batched_gather(tree.raw_values, leaves.node)
    carry = (tree.stats[tree_index], leaves.node, value, jnp.max(leaves.depth))
    stats = jax.lax.while_loop(lambda carry: carry[3] >= 0, body, carry)[0]
    return replace_stats(tree, tree_index, stats)
