"""Searches with several trees, in rounds: each later tree refines the trees before it."""

import functools

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.keys import fold_in_key, split_key
from dualmctx.search.refine import refine_best
from dualmctx.search.simulate import simulate
from dualmctx.search.spec import Rounds, SearchSpec
from dualmctx.search.tree import Tree
from dualmctx.types import Params

Carry = tuple[Array, Tree]


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
) -> Carry:
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

    def body(i: Array, carry: Carry) -> Carry:
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
                tree = jax.lax.cond(numbers[0] < numbers[1], run, _skip, tree)
        return rng_key, tree

    return jax.lax.fori_loop(begin, end, body, (rng_key, tree))


def _skip(tree: Tree) -> Tree:
    return tree


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
