"""The programs of a pool of trees, as pure functions; see `tree_pool.TreePool`."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.evaluation.batching import position_keys
from dualmctx.evaluation.evaluations import (
    Evaluations,
    evaluate_heads,
    read_decision,
    to_evaluations,
)
from dualmctx.runs.saved_network import Trained
from dualmctx.search.subtree import compact_tree, get_subtree
from dualmctx.search.tree import Tree, root_passes
from dualmctx.types import SearchFn


class Rows(NamedTuple):
    """The memory of a pool: positions and their trees, `[P, ...]` each."""

    states: Any
    trees: Tree


class Deepened(NamedTuple):
    """The results of a chunk for `[B]` positions, on the device.

    Attributes:
      evaluations: the evaluations, which describe the whole trees.
      simulations: `[B]` int32, simulations of all trees of a position together.
    """

    evaluations: Evaluations
    simulations: Array


class PoolPrograms(NamedTuple):
    """Functions to compile. The first argument is the memory of the pool, which they replace.

    Attributes:
      trained: the network with its game.
      search_fn: the search of a chunk, which continues from trees.
      capacity: the largest number of simulations of a tree.
    """

    trained: Trained
    search_fn: SearchFn
    capacity: int

    def place(self, rows: Rows, index: Array, states: Any) -> Rows:
        """Writes `[B]` states with empty trees."""
        empty = jax.tree.map(lambda x: jnp.zeros((len(index), *x.shape[1:]), x.dtype), rows.trees)
        return _write(rows, index, Rows(states, empty))

    def advance(
        self, rows: Rows, source: Array, target: Array, action: Array
    ) -> tuple[Rows, Array]:
        """Copies the subtree below an action; also returns its simulations."""
        tree = _read(rows.trees, source[None])
        subtree = get_subtree(tree, action[None], reuse_capacity=self.capacity)
        trees = _write(rows.trees, target[None], subtree)
        return rows._replace(trees=trees), _count(subtree)[0]

    def deepen(
        self, rows: Rows, inputs: Any, index: Array, digests: Array, number: Array
    ) -> tuple[Rows, Deepened]:
        """Adds a chunk of simulations to `[B]` trees; see `TreePool.deepen`."""
        params, rng_key = inputs
        states, trees = _read(rows, index)
        keys = _chunk_keys(position_keys(rng_key, digests), number)
        output = self.search_fn(params, keys, states, trees)
        tree: Any = output.search_tree
        heads = evaluate_heads(self.trained.network, params, states)
        decision = read_decision(output, self.trained.env.num_actions)
        evaluations = to_evaluations(states, heads, decision)
        kept = compact_tree(tree, reuse_capacity=self.capacity)
        rows = rows._replace(trees=_write(rows.trees, index, kept))
        return rows, Deepened(evaluations, _count(tree))


def _read(rows: Any, index: Array) -> Any:
    return jax.tree.map(lambda x: x.at[index].get(mode="clip"), rows)


def _write(rows: Any, index: Array, values: Any) -> Any:
    # A row that does not exist is not written.
    write = functools.partial(_write_array, index)
    return jax.tree.map(write, rows, values)


def _write_array(index: Array, array: Array, values: Array) -> Array:
    return array.at[index].set(values.astype(array.dtype), mode="drop")


def _chunk_keys(rng_keys: Array, number: Array) -> Array:
    """Returns the keys of a chunk; the first chunk has the keys of a search of its own."""
    folded = jax.vmap(jax.random.fold_in)(rng_keys, number)
    return jnp.where((number == 0)[:, None], rng_keys, folded)


def _count(tree: Tree) -> Array:
    """Returns `[B]` int32, the simulations of all trees that passed through an action."""
    passes = [jnp.sum(root_passes(tree, i), axis=-1) for i in range(len(tree.stats))]
    return jnp.sum(jnp.stack(passes), axis=0).astype(jnp.int32)
