"""Speculation: a search guesses its next leaves, and one call evaluates all of them.

A search asks for one leaf after the other, and each evaluation is a call. A round of speculation
guesses the leaf that the search asks for next and up to K − 1 later ones, evaluates them in one
call, and runs simulations until one needs a node that was not guessed. These simulations are those
of the ordinary search, so guesses change the number of calls and nothing else.

The guesses are the ends of simulations on a copy of the statistics. A guessed leaf counts as a
finished game, whose result is the mean of its parent. So no guess needs the network or the game,
and none is below a leaf that was guessed in the same round. The first new leaf is no guess: all
simulations before it ended at evaluated nodes.

Nodes that were guessed in vain stay in the tree, where later simulations may find them. They take
spare slots. When these are full, a round evaluates only the leaf that the search asks for. At the
end the nodes move to the slots that the ordinary search gives them, and the others are dropped.
Each round copies the statistics of the tree, so its cost grows with the size of the tree.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import (
    batched_scatter,
    gather_pair,
    scatter_pair,
    smallest_type,
)
from dualmctx.search.backup import backup
from dualmctx.search.expand import Leaves, expand_leaves, link, needs_node
from dualmctx.search.keys import split_key
from dualmctx.search.select import descend
from dualmctx.search.spec import SearchSpec
from dualmctx.search.subtree import NODE_FIELDS, select_nodes
from dualmctx.search.tree import Tree
from dualmctx.types import Params

_WALKS_PER_LEAF = 2
"""Simulations on the copy per leaf of a call; many of them end at known nodes."""


class Guesses(NamedTuple):
    """The nodes of a search that guesses, between two rounds.

    Attributes:
      num_slots: `[B]` int32, the slots that are taken; all later ones are empty.
      order: `[B, N]` int32, the node in each slot of the ordinary search; -1 in empty slots.
    """

    num_slots: Array
    order: Array


def num_spare(num_simulations: int) -> int:
    """Returns the number of slots for nodes that are guessed in vain: half of the simulations."""
    return (num_simulations + 1) // 2


def start_guessing(tree: Tree, num_simulations: int, first_slot: int) -> tuple[Tree, Guesses]:
    """Returns trees with spare slots, and the nodes that they have.

    Args:
      tree: trees that hold their roots, with room for `num_simulations` more nodes.
      num_simulations: simulations of each tree, at least 1.
      first_slot: this slot and all later ones are empty.
    """
    shape = tree.edges.shape
    slots = jnp.broadcast_to(jnp.arange(shape[1], dtype=jnp.int32), shape)
    is_node = (tree.edges != Tree.NO_PARENT) | (slots == Tree.ROOT_INDEX)
    order = jnp.where(is_node, slots, Tree.UNVISITED)
    num_slots = jnp.full(shape[0], first_slot, jnp.int32)
    return _add_slots(tree, num_spare(num_simulations)), Guesses(num_slots, order)


def drop_guesses(tree: Tree, guesses: Guesses) -> Tree:
    """Returns the trees of the ordinary search, with the same nodes in the same slots."""
    found = select_nodes(tree, guesses.order)
    index_type = smallest_type(found.num_nodes)
    return found.replace(children_index=found.children_index.astype(index_type))


def search_with_guesses(
    params: Params,
    spec: SearchSpec,
    rng_key: Array,
    tree: Tree,
    done: Array,
    guesses: Guesses,
    num_simulations: int,
    until: Array | int,
    *,
    first_slot: int,
) -> tuple[Array, Tree, Array, Guesses]:
    """Runs the simulations of an ordinary search with fewer calls of the evaluation.

    Args:
      params: passed on to the evaluation.
      spec: the simulations of the tree, by rules that do not sample; `speculation` is K, the
        largest number of leaves of a tree in one call. `evaluate_fn` evaluates `[B·K]` states.
      rng_key: consumed by `evaluate_fn`, whose results must not depend on it.
      tree: the trees of `start_guessing`, or of an earlier call.
      done: `[B]` int32, the simulations of each tree so far.
      guesses: the slots of the nodes, from the call that returned the trees.
      num_simulations: the simulations of each tree in the whole search, at least 1.
      until: scalar int32; the call ends when each tree has had so many simulations or more.
      first_slot: the slot of the first simulation.

    Returns:
      A new key, the trees, the new `done`, and the guesses. Trees progress at different speeds; one
      whose simulations are complete does not change while others continue.
    """
    width = min(spec.speculation, num_simulations)

    def run_round(
        carry: tuple[Array, Tree, Array, Guesses],
    ) -> tuple[Array, Tree, Array, Guesses]:
        rng_key, tree, done, guesses = carry
        left, first = num_simulations - done, guesses.num_slots
        # Each simulation that is left may need a slot of its own.
        limit = jnp.minimum(jnp.minimum(width, left), 1 + tree.num_nodes - first - left)
        rng_key, key = split_key(rng_key)
        max_walks = jnp.minimum(_WALKS_PER_LEAF * width, left)
        guessed, leaves = guess_leaves(spec, key, tree, first, limit, max_walks, num_leaves=width)
        tree = guessed.replace(stats=tree.stats)
        tree = expand_leaves(params, key, tree, spec.evaluate_fn, leaves)
        known = spec, rng_key, tree, done, guesses.order
        tree, done, order = _simulate_known(*known, num_simulations, first_slot)
        return rng_key, tree, done, Guesses(first + leaves.num_simulations, order)

    carry = rng_key, tree, done, guesses
    return jax.lax.while_loop(lambda x: jnp.any(x[2] < until), run_round, carry)


def guess_leaves(
    spec: SearchSpec,
    rng_key: Array,
    tree: Tree,
    first_slot: Array,
    limit: Array,
    max_walks: Array,
    *,
    num_leaves: int,
) -> tuple[Tree, Leaves]:
    """Guesses the next leaves of each tree.

    Args:
      spec: the simulations of the tree.
      rng_key: passed on to the rules, which do not sample.
      tree: the trees.
      first_slot: `[B]` int32; this slot and all later ones are empty.
      limit: `[B]` int32, the largest number of leaves in each tree.
      max_walks: `[B]` int32, the largest number of simulations; 0 for a tree that must not change.
      num_leaves: K, the largest number of leaves in any tree, at least 1.

    Returns:
      The trees, with links to the leaves and with the statistics of the guessed simulations; and
      the leaves, whose i-th has slot `first_slot + i`.
    """

    def body(carry: tuple[Array, Tree, Leaves, Array]) -> tuple[Array, Tree, Leaves, Array]:
        i, tree, leaves, is_open = carry
        path = descend(spec, rng_key, tree, is_open)
        is_new = needs_node(path, is_open)
        number = leaves.num_simulations
        node = jnp.where(is_new, first_slot + number, jnp.maximum(path.child, 0))
        tree = link(tree, path, node, is_new)
        _, mean = gather_pair(tree.stats[0].node_stats, path.parent)
        ends = scatter_pair(tree.transitions, node, mean, jnp.zeros_like(mean), is_new)
        tree = backup(spec, tree.replace(transitions=ends), node, is_open)
        leaf = Leaves(path.parent, path.action, node, path.depth, is_new)
        is_column = is_new[:, None] & (columns == number[:, None])
        leaves = jax.tree.map(lambda x, y: jnp.where(is_column, y[:, None], x), leaves, leaf)
        is_open &= (leaves.num_simulations < limit) & (i + 1 < max_walks)
        return i + 1, tree, leaves, is_open

    columns = jnp.arange(num_leaves, dtype=jnp.int32)[None]
    zeros = jnp.zeros((tree.edges.shape[0], num_leaves), jnp.int32)
    leaves = Leaves(zeros, zeros, zeros, zeros - 1, zeros > 0)
    carry = jnp.int32(0), tree, leaves, max_walks > 0
    _, tree, leaves, _ = jax.lax.while_loop(lambda x: jnp.any(x[3]), body, carry)
    return tree, leaves


def _simulate_known(
    spec: SearchSpec,
    rng_key: Array,
    tree: Tree,
    done: Array,
    order: Array,
    num_simulations: int,
    first_slot: int,
) -> tuple[Tree, Array, Array]:
    """Runs simulations in each tree until one would need a new node."""

    def body(carry: tuple[Tree, Array, Array, Array]) -> tuple[Tree, Array, Array, Array]:
        tree, done, order, is_open = carry
        path = descend(spec, rng_key, tree, is_open)
        is_open &= path.child != Tree.UNVISITED
        node = jnp.maximum(path.child, 0)
        visits, _ = gather_pair(tree.stats[0].node_stats, node)
        order = batched_scatter(order, first_slot + done, node, is_open & (visits == 0))
        tree, done = backup(spec, tree, node, is_open), done + is_open
        return tree, done, order, is_open & (done < num_simulations)

    carry = tree, done, order, done < num_simulations
    return jax.lax.while_loop(lambda x: jnp.any(x[3]), body, carry)[:3]


def _add_slots(tree: Tree, number: int) -> Tree:
    """Returns the trees with more empty slots, and with indices that can number them."""

    def add(array: Array, empty: int = 0) -> Array:
        rows = (array.shape[0], number, *array.shape[2:])
        new = jnp.zeros(rows, array.dtype)
        return jnp.concatenate([array, new + empty if empty else new], axis=1)

    index = tree.children_index.astype(smallest_type(tree.num_nodes + number))
    fields = {name: jax.tree.map(add, getattr(tree, name)) for name in NODE_FIELDS}
    fields["edges"] = add(tree.edges, Tree.NO_PARENT)
    fields["children_index"] = add(index, Tree.UNVISITED)
    return tree.replace(**fields)
