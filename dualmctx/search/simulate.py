"""Simulations of one tree, one at a time or several at once."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import any_true, synchronize
from dualmctx.search.backup import backup
from dualmctx.search.expand import expand, expand_leaves
from dualmctx.search.keys import fold_in_key, select_key, split_key
from dualmctx.search.select import descend
from dualmctx.search.spec import SearchSpec
from dualmctx.search.tree import Tree
from dualmctx.types import Params


def simulate(
    params: Params,
    spec: SearchSpec,
    first_slot: Array | int,
    number: Array | int,
    carry: tuple[Array, Tree],
    is_active: Array | None = None,
) -> tuple[Array, Tree]:
    """Runs one simulation: select, expand, back up.

    With its first three arguments bound, it is the body of a loop over simulations.

    Args:
      params: passed on to the evaluation.
      spec: the simulations of the tree, one leaf per step.
      first_slot: scalar, the slot of simulation 0; simulation i writes slot `first_slot + i`.
      number: scalar, the number of the simulation.
      carry: a key, which is consumed and split as `mctx.search` splits it; and the trees.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      A new key and the trees.
    """
    rng_key, tree = carry
    rng_key, select_key, expand_key = split_key(rng_key, 3)
    path, slot = spec.backend.descend(spec, select_key, tree), first_slot + number
    tree, new = expand(params, expand_key, tree, spec.evaluate_fn, path, slot, is_active)
    return rng_key, spec.backend.insert_and_backup(spec, tree, path, new, slot, is_active)


def simulate_existing(
    spec: SearchSpec, rng_key: Any, tree: Tree, first: Array, end: Array
) -> tuple[Tree, Array]:
    """Runs simulations in each tree until one would need a new node.

    Args:
      spec: the simulations of the tree.
      rng_key: consumed; simulation j selects with the key that `simulate` derives from
        `fold_in_key(rng_key, j)`.
      tree: the trees.
      first: `[B]` int32, the number of the first simulation of each tree, at most `end`.
      end: scalar int32; all simulations have smaller numbers.

    Returns:
      The trees; and `[B]` int32, the first simulation of each tree that needs a new node, or `end`.
    """

    def body(carry: tuple[Array, Tree, Array]) -> tuple[Array, Tree, Array]:
        number, tree, next_number = carry
        synchronize(tree.edges)  # The walk reads the backup of the simulation before.
        key = select_key(fold_in_key(rng_key, number))
        is_active = next_number == number
        path = descend(spec, key, tree, is_active)
        is_active &= path.child != Tree.UNVISITED
        tree = backup(spec, tree, jnp.maximum(path.child, 0), is_active)
        return number + 1, tree, jnp.where(is_active, number + 1, next_number)

    def is_running(carry: tuple[Array, Tree, Array]) -> Array:
        number, _, next_number = carry
        return any_true((next_number >= number) & (number < end))

    _, tree, next_number = jax.lax.while_loop(is_running, body, (jnp.min(first), tree, first))
    return tree, next_number


def simulate_parallel(
    params: Params,
    spec: SearchSpec,
    rng_key: Array,
    tree: Tree,
    first_slot: Array,
    limit: Array,
) -> tuple[Array, Tree, Array]:
    """Runs up to K simulations of each root with one batched evaluation.

    Args:
      params: passed on to the evaluation.
      spec: the simulations of the tree, with K leaves per step and without a window.
      rng_key: consumed; split as in `simulate`.
      tree: the trees.
      first_slot: `[B]` int32; this slot and all later ones are empty.
      limit: `[B]` int32, the largest number of simulations of each root; 0 for a tree that must not
        change.

    Returns:
      A new key; the trees; and `[B]` int32, the number of simulations of each root: at least 1 if
      the limit is at least 1, and fewer than K if a descent ended at a leaf of the same step.
    """
    rng_key, select_key, expand_key = split_key(rng_key, 3)
    tree, leaves = spec.backend.select_leaves(spec, select_key, tree, first_slot, limit)
    tree = expand_leaves(params, expand_key, tree, spec.evaluate_fn, leaves)
    return rng_key, spec.backend.backup_parallel(spec, tree, leaves), leaves.num_simulations


def run_parallel(
    params: Params,
    spec: SearchSpec,
    rng_key: Array,
    tree: Tree,
    done: Array,
    num_simulations: int,
    until: Array | int,
    *,
    first_slot: int,
) -> tuple[Array, Tree, Array]:
    """Runs steps of several simulations until each tree has had `until` of them, or more.

    Trees need different numbers of steps. A tree whose simulations are complete does not change
    while others continue.

    Args:
      params: passed on to the evaluation.
      spec: the simulations of the tree, with K leaves per step.
      rng_key: consumed.
      tree: the trees.
      done: `[B]` int32, the simulations of each tree so far.
      num_simulations: the simulations of each tree in the whole search.
      until: scalar int32.
      first_slot: the slot of the first simulation.

    Returns:
      A new key, the trees, and the new `done`.
    """
    spec = spec._replace(leaves_per_step=min(spec.leaves_per_step, num_simulations))

    def step(carry: tuple[Array, Tree, Array]) -> tuple[Array, Tree, Array]:
        rng_key, tree, done = carry
        slot, limit = first_slot + done, num_simulations - done
        rng_key, tree, number = simulate_parallel(params, spec, rng_key, tree, slot, limit)
        return rng_key, tree, done + number

    return jax.lax.while_loop(lambda carry: jnp.any(carry[2] < until), step, (rng_key, tree, done))
