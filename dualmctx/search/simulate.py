"""The loops of a search: simulations, one at a time or several at once, and rounds.

In a search with several trees, each later tree refines the trees before it, in rounds.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import any_true, synchronize
from dualmctx.search.backup import backup
from dualmctx.search.expand import expand, expand_leaves
from dualmctx.search.keys import fold_in_key, select_key, split_key
from dualmctx.search.refine import refine_best
from dualmctx.search.select import descend
from dualmctx.search.spec import Rounds, SearchSpec
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

    A step runs up to K simulations of each root with one batched evaluation: at least 1, and fewer
    than K if a descent ended at a leaf of the same step. Trees need different numbers of steps. A
    tree whose simulations are complete does not change while others continue.

    Args:
      params: passed on to the evaluation.
      spec: the simulations of the tree, with K leaves per step and without a window.
      rng_key: consumed; each step splits it as `simulate` does.
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
        rng_key, select_key, expand_key = split_key(rng_key, 3)
        limits = first_slot + done, num_simulations - done
        tree, leaves = spec.backend.select_leaves(spec, select_key, tree, *limits)
        tree = expand_leaves(params, expand_key, tree, spec.evaluate_fn, leaves)
        tree = spec.backend.backup_parallel(spec, tree, leaves)
        return rng_key, tree, done + leaves.num_simulations

    return jax.lax.while_loop(lambda carry: jnp.any(carry[2] < until), step, (rng_key, tree, done))


def even_rounds(num_simulations: tuple[int, ...], num_rounds: int) -> Rounds:
    """Splits the budget of each tree evenly over a number of rounds."""
    return tuple(
        tuple(
            (i + 1) * number // num_rounds - i * number // num_rounds for number in num_simulations
        )
        for i in range(num_rounds)
    )


def slot_offset(first_slot: int, begin: Array, end: Array, tree_index: int) -> Array:
    """Returns the offset that, added to the number of a tree's simulation, gives its slot.

    Args:
      first_slot: as in `run_rounds`.
      begin: `[K]` int32, the simulations of each tree before the round.
      end: `[K]` int32, those after the round.
      tree_index: the tree.
    """
    return first_slot + jnp.sum(end[:tree_index]) + jnp.sum(begin[tree_index + 1 :])


def run_rounds(
    params: Params,
    rng_key: Array,
    tree: Tree,
    specs: tuple[SearchSpec, ...],
    *,
    rounds: Rounds,
    begin: Array | int,
    end: Array | int,
    first_slot: int,
) -> tuple[Array, Tree]:
    """Grows the first tree and refines it by each later one, in rounds `begin` to `end - 1`.

    A round first runs its share of the first tree's simulations. Then each later tree evaluates its
    share of the best leaves by its own head, in one call whose width is the largest share of any
    round; without a share there is no call. Where an element of the batch has too few such leaves,
    ordinary simulations of the later tree take their place. Each simulation and each evaluation has
    a slot of its own, so the index of a node does not depend on the rest of the batch.

    Args:
      params: passed on to the evaluations.
      rng_key: consumed.
      tree: trees that hold their roots, with room for the sum of all budgets.
      specs: the simulations of each tree, and the refinements by each later one.
      rounds: the share of each tree, for each round. A single round runs the trees one after the
        other; a share of 1 per round for a later tree interleaves the trees strictly.
      begin: scalar, the first round to run.
      end: scalar, the round after the last one.
      first_slot: before the first round, this slot and all later ones are empty.

    Returns:
      A new key and the trees.

    Source: Kadam, Xu, Lieberherr 2021, section 3, and section 6 for more than two trees. Lan et al.
    2019, Algorithm 2, corresponds to one round.
    """
    widths = [max(shares) for shares in zip(*rounds, strict=True)]
    ends = jnp.cumsum(jnp.array([[0] * len(widths), *rounds], jnp.int32), axis=0)

    def body(i: Array, carry: tuple[Array, Tree]) -> tuple[Array, Tree]:
        before, after = ends[i], ends[i + 1]

        def slot(tree_index: int) -> Array:
            return slot_offset(first_slot, before, after, tree_index)

        # If all rounds are alike, the length of the loop is known, and a GPU need not ask for it.
        share = rounds[0][0] if len(set(rounds)) == 1 else after[0] - before[0]
        run = functools.partial(simulate, params, specs[0], slot(0) + before[0])
        rng_key, tree = jax.lax.fori_loop(0, share, run, carry)
        for tree_index, spec in enumerate(specs[1:], 1):
            rng_key, *keys = split_key(rng_key, 3)
            numbers = before[tree_index], after[tree_index]
            run = functools.partial(
                _run_share,
                *(params, keys),
                spec=spec,
                numbers=numbers,
                width=widths[tree_index],
                first_slot=slot(tree_index),
            )
            if all(shares[tree_index] for shares in rounds):
                tree = run(tree)
            else:
                tree = jax.lax.cond(numbers[0] < numbers[1], run, lambda tree: tree, tree)
        return rng_key, tree

    return jax.lax.fori_loop(begin, end, body, (rng_key, tree))


def _run_share(
    params: Params,
    rng_keys: list[Array],
    tree: Tree,
    spec: SearchSpec,
    numbers: tuple[Array, Array],
    width: int,
    first_slot: Array,
) -> Tree:
    """Runs a later tree's share of a round: simulations `numbers[0]` to `numbers[1] - 1`."""
    begin, end = numbers
    refine_key, simulate_key = rng_keys
    tree, _, is_valid, _ = refine_best(params, refine_key, tree, spec, width, end - begin)
    first = begin + jnp.sum(is_valid, axis=-1, dtype=jnp.int32)
    # If the first tree has the larger budget, most of these simulations end at terminal nodes.
    tree, first = spec.backend.simulate_existing(spec, simulate_key, tree, first, end)

    def body(j: Array, tree: Tree) -> Tree:
        # One key per number: the count of these simulations depends on the rest of the batch.
        key = fold_in_key(simulate_key, j)
        return simulate(params, spec, first_slot, j, (key, tree), first <= j)[1]

    # The loop starts with the first simulation that needs a new node.
    return jax.lax.fori_loop(jnp.min(first), end, body, tree)
