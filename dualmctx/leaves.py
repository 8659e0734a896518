"""Several leaves of one root a step: selection one after the other, one evaluation of all of them.

Until its value is known, a leaf that was selected counts as one more visit of every edge of its
path, at the value that the edge had (0 if it is new), so that the selections after it spread. The
backup then writes what these edges are really worth: nothing of the virtual visits is left after a
step. A step's work grows with its leaves and their depth, never with the size of the tree; the
backup compares the K leaves of a root with each other at each level, which is K² of little work.

With a virtual loss of n_vl the leaf counts as n_vl visits in place of one, all of them lost by the
player who moves along the edge:
    N ← N + n_vl;   Q ← (N Q − n_vl) / (N + n_vl)
which lowers Q too, and takes values to lie in [-1, 1].

Source: Liu et al. 2020 (WU-UCT), "Watch the unobserved", counts unobserved visits like this. The
loss is AlphaGo's, Silver et al. 2016, Methods, with n_vl = 3; there the rollouts' statistics alone
bear it, here an edge has one sum of both kinds. On Connect Four it chose no better moves.
"""

from typing import NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from dualmctx.arrays import by_edge, pair, put, take
from dualmctx.backup import write_nodes
from dualmctx.keys import fold_in_key, repeat_key
from dualmctx.tree import Layer, Tree, edge_index, edge_into, get_state, replace_layer
from dualmctx.types import EvaluateFn, Params, Path


class DescendFn(Protocol):
    """Walks down from the roots to where a simulation ends."""

    def __call__(self, rng_key: chex.PRNGKey, tree: Tree) -> Path:
        """Takes a key, consumed by the rules, and the trees."""
        ...


class Leaves(NamedTuple):
    """Where the simulations of a step end; `[B, K]` each.

    Attributes:
      parent: int32, the node that the last edge leaves.
      action: int32, the action of that edge.
      node: int32, the node that it enters.
      depth: int32, the number of edges, at least 1.
      is_new: bool, whether the node has yet to be evaluated. Where several simulations of a step
        end at the same new node, the first one creates it.
    """

    parent: chex.Array
    action: chex.Array
    node: chex.Array
    depth: chex.Array
    is_new: chex.Array


def select_leaves(
    rng_key: chex.PRNGKey,
    tree: Tree,
    descend_fn: DescendFn,
    first_slot: chex.Numeric,
    *,
    num_leaves: int,
    virtual_loss: int = 0,
    layer: int = 0,
) -> tuple[Tree, Leaves]:
    """Selects leaves one after the other, each under the virtual visits of those before it.

    The i-th leaf, if it is new, gets slot `first_slot + i`. An empty slot's discount is 0, which is
    a terminal node's mark, so a later walk of the step that comes to a new leaf ends there.

    Args:
      rng_key: consumed; the walks have keys of their own.
      tree: the trees, without virtual visits.
      descend_fn: how to walk down.
      first_slot: scalar, the first of `num_leaves` empty slots.
      num_leaves: K, at least 1.
      virtual_loss: n_vl, at least 0; 0 for virtual visits that leave Q as it is.
      layer: the tree that is walked; it has visited every node that there is.

    Returns:
      The trees with virtual visits in `children_visits` (and `children_qvalues`), and the leaves.
    """

    def body(tree: Tree, i: chex.Array) -> tuple[Tree, Leaves]:
        path = descend_fn(fold_in_key(rng_key, i), tree)
        is_new = path.child == Tree.UNVISITED
        node = jnp.where(is_new, first_slot + i, path.child)
        tree = _link(tree, path, node)
        stats = _add_virtual_visits(tree, node, virtual_loss, layer)
        leaves = Leaves(path.parent, path.action, node, path.depth, is_new)
        return replace_layer(tree, layer, stats), leaves

    tree, leaves = jax.lax.scan(body, tree, jnp.arange(num_leaves))
    return tree, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), leaves)


def _link(tree: Tree, path: Path, node: chex.Array) -> Tree:
    """Connects nodes with the ends of the paths; nothing changes where they are connected."""
    edge = edge_index(tree, path.parent, path.action)
    children_index = put(by_edge(tree.children_index), edge, node)
    return tree.replace(
        edges=put(tree.edges, node, edge),
        children_index=children_index.reshape(tree.children_index.shape),
    )


def _add_virtual_visits(tree: Tree, node: chex.Array, virtual_loss: int, layer: int) -> Layer:
    """Adds visits to every edge above `[B]` nodes, in the rows that selection reads."""
    stats = tree.layers[layer]

    def body(carry: tuple) -> tuple:
        visits, qvalues, edge = carry
        climbs = edge != Tree.NO_PARENT
        inside = jnp.maximum(edge, 0)
        old = take(visits, inside)
        new = old + max(1, virtual_loss)
        visits = put(visits, inside, new, climbs)
        if virtual_loss:
            lost = (old * take(qvalues, inside) - virtual_loss) / new
            qvalues = put(qvalues, inside, lost, climbs)
        above = take(tree.edges, jax.lax.div(inside, tree.num_actions))
        return visits, qvalues, jnp.where(climbs, above, edge)

    rows = by_edge(stats.children_visits), by_edge(stats.children_qvalues)
    carry = *rows, take(tree.edges, node)
    *rows, _ = jax.lax.while_loop(lambda c: jnp.any(c[2] != Tree.NO_PARENT), body, carry)
    visits, qvalues = (x.reshape(stats.children_visits.shape) for x in rows)
    return stats.replace(children_visits=visits, children_qvalues=qvalues)


def expand_leaves(
    params: Params,
    rng_key: chex.PRNGKey,
    tree: Tree,
    evaluate_fn: EvaluateFn,
    leaves: Leaves,
    first_slot: chex.Numeric,
) -> Tree:
    """Evaluates the leaves of a step in one call and writes the new ones, each into its slot.

    Args:
      params: passed on to `evaluate_fn`.
      rng_key: consumed by `evaluate_fn`.
      tree: the trees.
      evaluate_fn: plays actions and evaluates the states reached, `[B·K]` at once. What it says of
        leaves that are not new is not used.
      leaves: `[B, K]` leaves.
      first_slot: scalar, as in `select_leaves`.

    Returns:
      The trees; slots of leaves that are not new stay empty.
    """
    shape = leaves.node.shape
    state = get_state(tree, leaves.parent)
    state = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), state)
    keys = repeat_key(rng_key, shape[1])
    new, embedding = evaluate_fn(params, keys, leaves.action.reshape(-1), state)
    chex.assert_shape(new.prior, (shape[0] * shape[1], tree.num_actions))

    def write(array: chex.Array, rows: chex.Array) -> chex.Array:
        rows = rows.reshape(*shape, *rows.shape[1:]).astype(array.dtype)
        is_new = leaves.is_new.reshape(*shape, *(1,) * (rows.ndim - 2))
        rows = jnp.where(is_new, rows, jnp.zeros_like(rows))
        return jax.lax.dynamic_update_slice_in_dim(array, rows, first_slot, axis=1)

    return tree.replace(
        transitions=write(tree.transitions, pair(new.reward, new.discount)),
        children_prior=write(tree.children_prior, new.prior),
        raw_values=write(tree.raw_values, new.value),
        embeddings=jax.tree.map(write, tree.embeddings, embedding),
    )


def backup_together(tree: Tree, leaves: Leaves, *, layer: int = 0) -> Tree:
    """Adds the leaves' values to the leaves and to all of their ancestors, in place of the virtual.

    A node's new mean is that of all its returns, as if the leaves were backed up one after the
    other. All walks climb a level at a time from the deepest leaf on, so that those through the
    same node are there at the same time, and it is read and written once.

    Args:
      tree: the trees after `expand_leaves`; values from the view of the player to move.
      leaves: `[B, K]` leaves, the same node several times where several walks ended there.
      layer: the tree that is updated.

    Returns:
      The trees with visits and values of that layer changed along the paths.
    """
    is_before = jnp.tril(jnp.ones((leaves.node.shape[1],) * 2, bool), -1)

    def body(carry: tuple) -> tuple:
        stats, node, value, level = carry
        climbs = level <= leaves.depth
        same = (node[:, :, None] == node[:, None, :]) & climbs[:, None, :]
        is_first = climbs & ~jnp.any(same & is_before, axis=-1)
        visits = jnp.sum(same, axis=-1)
        returns = jnp.sum(jnp.where(same, value[:, None, :], 0), axis=-1)
        old = take(stats.node_stats, node)
        count = old[..., 0] + visits
        mean = old[..., 1] + (returns - visits * old[..., 1]) / jnp.maximum(count, 1)
        edge = edge_into(tree, node)
        stats = write_nodes(stats, node, edge, count, mean, is_first)
        value = jnp.where(climbs, edge.reward + edge.discount * value, value)
        node = jnp.where(climbs, jnp.maximum(edge.parent, Tree.ROOT_INDEX), node)
        return stats, node, value, level - 1

    value = take(tree.raw_values, leaves.node)
    carry = (tree.layers[layer], leaves.node, value, jnp.max(leaves.depth))
    stats = jax.lax.while_loop(lambda carry: carry[3] >= 0, body, carry)[0]
    return replace_layer(tree, layer, stats)
