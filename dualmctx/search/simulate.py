"""The loops: one simulation, a search of many, and rounds in which more trees follow the first."""

from typing import NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather
from dualmctx.search.backup import backup, backup_leaves, windowed_backup, write_back
from dualmctx.search.expand import expand, frontier, refine
from dualmctx.search.keys import fold_in_key, split_key
from dualmctx.search.parallel_leaves import backup_parallel, expand_leaves, select_leaves
from dualmctx.search.select import descend
from dualmctx.search.tree import Tree
from dualmctx.types import EvaluateFn, Params, Path, RefineFn, SelectFn, TrackFn

Carry = tuple[chex.PRNGKey, Tree]
Rounds = tuple[tuple[int, ...], ...]
"""How many simulations each tree has in each round."""


class SearchSpec(NamedTuple):
    """How simulations grow one tree.

    Attributes:
      evaluate_fn: plays an action and evaluates the state reached.
      root_select_fn: the selection rule at the root.
      interior_select_fn: the selection rule below it.
      max_depth: the largest number of edges of a simulation.
      window: edges that a backup updates, `None` for all.
      tree_index: the tree that grows.
      leaves_per_step: K, the most simulations that `search` runs at once; 1 with a window.
      track_fn: keeps what a variant tracks besides, `None` for nothing; with single leaves, and in
        a tree that grows in all elements at once, as one that follows another does not.
      virtual_loss: n_vl, how many lost visits a leaf of such a step counts as until its value is
        known; 0 for one visit that leaves Q as it is.
    """

    evaluate_fn: EvaluateFn
    root_select_fn: SelectFn
    interior_select_fn: SelectFn
    max_depth: int
    window: int | None = None
    tree_index: int = 0
    leaves_per_step: int = 1
    track_fn: TrackFn | None = None
    virtual_loss: int = 0

    def descend(
        self, rng_key: chex.PRNGKey, tree: Tree, is_active: chex.Array | None = None
    ) -> Path:
        """Walks down from the roots to where a simulation ends; consumes the key.

        Elements that `[B]` `is_active` excludes do not walk.
        """
        return descend(
            rng_key,
            tree,
            self.root_select_fn,
            self.interior_select_fn,
            max_depth=self.max_depth,
            tree_index=self.tree_index,
            is_active=is_active,
        )


def simulate(
    params: Params,
    rng_key: chex.PRNGKey,
    tree: Tree,
    spec: SearchSpec,
    node_index: chex.Numeric,
    is_active: chex.Array | None = None,
) -> Carry:
    """Runs one simulation: select, expand, back up.

    Args:
      params: passed on to the evaluation.
      rng_key: consumed; split the way that `mctx.search` splits it.
      tree: the trees.
      spec: how.
      node_index: scalar, the slot for a new node.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      A new key and the trees.
    """
    rng_key, select_key, expand_key = split_key(rng_key, 3)
    path = spec.descend(select_key, tree)
    tree, leaf = expand(params, expand_key, tree, spec.evaluate_fn, path, node_index, is_active)
    if spec.window is None:
        tree = backup(tree, leaf, is_active, tree_index=spec.tree_index)
    else:
        tree = windowed_backup(
            tree, leaf, is_active, window=spec.window, tree_index=spec.tree_index
        )
    if spec.track_fn is not None and is_active is None:
        tree = spec.track_fn(tree, leaf)
    return rng_key, tree


def simulate_parallel(
    params: Params,
    rng_key: chex.PRNGKey,
    tree: Tree,
    spec: SearchSpec,
    first_slot: chex.Array,
    limit: chex.Array,
) -> tuple[chex.PRNGKey, Tree, chex.Array]:
    """Runs up to K simulations of each root with one evaluation: select, expand and back up all.

    Args:
      params: passed on to the evaluation.
      rng_key: consumed; split as by `simulate`.
      tree: the trees.
      spec: how, with its K; without a window.
      first_slot: `[B]` int32, from which on the slots are empty.
      limit: `[B]` int32, the most simulations of each root, 0 for a tree that must not change.

    Returns:
      A new key, the trees, and `[B]` int32 the simulations of each root: at least 1 where the limit
      is, and fewer than K where a walk met a leaf of the same step.
    """
    tree_index = spec.tree_index
    rng_key, select_key, expand_key = split_key(rng_key, 3)
    tree, leaves = select_leaves(
        select_key,
        tree,
        spec.descend,
        first_slot,
        limit,
        num_leaves=spec.leaves_per_step,
        virtual_loss=spec.virtual_loss,
        tree_index=tree_index,
    )
    tree = expand_leaves(params, expand_key, tree, spec.evaluate_fn, leaves)
    return rng_key, backup_parallel(tree, leaves, tree_index=tree_index), leaves.num_simulations


def search(
    params: Params,
    rng_key: chex.PRNGKey,
    tree: Tree,
    spec: SearchSpec,
    num_simulations: int,
    *,
    first_slot: int = 1,
) -> Tree:
    """Runs simulations on one tree, the i-th of which (from 0) writes node `first_slot + i`.

    With several leaves per step, trees take different numbers of steps. A tree whose simulations
    are done does not change while others go on.

    Args:
      params: passed on to the evaluation.
      rng_key: consumed.
      tree: trees that hold their roots, with room for `num_simulations` nodes more.
      spec: how.
      num_simulations: how many in each tree, at least 1.
      first_slot: the slots from here on are empty.

    Returns:
      The trees after the search.
    """

    def simulate_one(i: chex.Array, carry: Carry) -> Carry:
        return simulate(params, *carry, spec, first_slot + i)

    if spec.leaves_per_step == 1:
        return jax.lax.fori_loop(0, num_simulations, simulate_one, (rng_key, tree))[1]
    spec = spec._replace(leaves_per_step=min(spec.leaves_per_step, num_simulations))

    def step(carry: tuple) -> tuple:
        rng_key, tree, done = carry
        slot, limit = first_slot + done, num_simulations - done
        rng_key, tree, number = simulate_parallel(params, rng_key, tree, spec, slot, limit)
        return rng_key, tree, done + number

    carry = rng_key, tree, jnp.zeros(tree.edges.shape[0], jnp.int32)
    return jax.lax.while_loop(lambda carry: jnp.any(carry[2] < num_simulations), step, carry)[1]


class ToPrior(Protocol):
    """Turns `[..., A]` logits into what the selection rule reads."""

    def __call__(self, logits: chex.Array) -> chex.Array:
        """Takes `[..., A]` logits."""
        ...


class Refinement(NamedTuple):
    """How a tree follows the one before it: batched evaluations of the nodes found there.

    Attributes:
      refine_fn: the later head.
      to_prior: turns its logits into what the selection rule reads.
      value_mix: α in [0, 1], the weight of the earlier value.
      prior_mix: β in [0, 1], the weight of the earlier prior.
      spec: simulations of the following tree, for when it runs out of nodes to evaluate.
    """

    refine_fn: RefineFn
    to_prior: ToPrior
    value_mix: float
    prior_mix: float
    spec: SearchSpec


def refine_tree(
    params: Params,
    rng_key: chex.PRNGKey,
    tree: Tree,
    refinement: Refinement,
    leaves: chex.Array,
    is_valid: chex.Array,
) -> Tree:
    """Evaluates leaves by a later head, adds them to the following tree, corrects those before.

    A leaf that a still later tree has evaluated is added as it is: that head's opinion stands.

    Args:
      params: passed on to `refine_fn`.
      rng_key: consumed by `refine_fn`.
      tree: the trees.
      refinement: the later head and the mixture.
      leaves: `[B, K]` int32, nodes that the following tree has not evaluated.
      is_valid: `[B, K]` bool, false for leaves to ignore.

    Returns:
      The trees.
    """
    tree_index, window = refinement.spec.tree_index, refinement.spec.window
    is_new = is_valid
    for later in tree.stats[tree_index + 1 :]:
        is_new &= batched_gather(later.node_visits, leaves) == 0
    tree, change = refine(
        params,
        rng_key,
        tree,
        refinement.refine_fn,
        leaves,
        is_new,
        to_prior=refinement.to_prior,
        value_mix=refinement.value_mix,
        prior_mix=refinement.prior_mix,
    )
    for earlier in range(tree_index):
        tree = write_back(tree, leaves, change, is_new, window=window, tree_index=earlier)
    return backup_leaves(tree, leaves, is_valid, window=window, tree_index=tree_index)


def even_rounds(num_simulations: tuple[int, ...], num_rounds: int) -> Rounds:
    """Splits the budget of each tree evenly over a number of rounds."""
    return tuple(
        tuple(
            (i + 1) * number // num_rounds - i * number // num_rounds for number in num_simulations
        )
        for i in range(num_rounds)
    )


def run_rounds(
    params: Params,
    rng_key: chex.PRNGKey,
    tree: Tree,
    spec: SearchSpec,
    follows: tuple[Refinement, ...],
    *,
    rounds: Rounds,
    first_slot: int = 1,
) -> Tree:
    """Grows the first tree and lets each later one follow those before it, in rounds.

    A round runs its share of the first tree's simulations; then each later tree evaluates its
    share of the best leaves by its own head in one call, as wide as the largest share of a round.
    Elements of the batch that have fewer such leaves run ordinary simulations of that tree for the
    rest. Every simulation and evaluation has a slot of its own, so that a node's index does not
    depend on the rest of the batch.

    Args:
      params: passed on to the evaluations.
      rng_key: consumed.
      tree: trees that hold their roots, with room for the sum of all budgets.
      spec: simulations of the first tree.
      follows: how each later tree follows; none for a search of one tree.
      rounds: for each round the share of each tree. One round is sequential; rounds in which each
        later tree has a share of one are strict interleaving.
      first_slot: the slots from here on are empty.

    Returns:
      The trees after the search.

    Source: Kadam, Xu, Lieberherr 2021, section 3, and section 6 for more than two trees; Lan et al.
    2019, Algorithm 2, is one round.
    """
    widths = [max(shares) for shares in zip(*rounds, strict=True)]
    ends = jnp.cumsum(jnp.array([[0] * len(widths), *rounds], jnp.int32), axis=0)

    def body(i: chex.Array, carry: Carry) -> Carry:
        begin, end = ends[i], ends[i + 1]

        def slot(tree_index: int) -> chex.Array:
            """Returns where a tree's first simulation of all would stand, seen from this round."""
            return first_slot + jnp.sum(end[:tree_index]) + jnp.sum(begin[tree_index + 1 :])

        def simulate_first(j: chex.Array, carry: Carry) -> Carry:
            rng_key, tree = carry
            return simulate(params, rng_key, tree, spec, slot(0) + j)

        rng_key, tree = jax.lax.fori_loop(begin[0], end[0], simulate_first, carry)
        for refinement in follows:
            tree_index = refinement.spec.tree_index
            rng_key, *keys = split_key(rng_key, 3)
            numbers = begin[tree_index], end[tree_index]
            tree = _take_turn(
                params, keys, tree, refinement, numbers, widths[tree_index], slot(tree_index)
            )
        return rng_key, tree

    return jax.lax.fori_loop(0, len(rounds), body, (rng_key, tree))[1]


def _take_turn(
    params: Params,
    rng_keys: list[chex.PRNGKey],
    tree: Tree,
    refinement: Refinement,
    numbers: tuple[chex.Array, chex.Array],
    width: int,
    first_slot: chex.Array,
) -> Tree:
    """Runs a later tree's share of a round, its simulations from one number to before another."""
    begin, end = numbers
    refine_key, simulate_key = rng_keys
    leaves, is_valid = frontier(tree, width, tree_index=refinement.spec.tree_index)
    is_valid &= jnp.arange(width)[None] < end - begin
    tree = refine_tree(params, refine_key, tree, refinement, leaves, is_valid)
    num_valid = jnp.sum(is_valid, axis=-1, dtype=jnp.int32)

    def body(j: chex.Array, tree: Tree) -> Tree:
        is_active = num_valid <= j - begin
        # A key by number, as how many of these run depends on the rest of the batch.
        key = fold_in_key(simulate_key, j)
        return simulate(params, key, tree, refinement.spec, first_slot + j, is_active)[1]

    # Starting where the first element runs short skips the calls that would change nothing.
    return jax.lax.fori_loop(begin + jnp.min(num_valid), end, body, tree)
