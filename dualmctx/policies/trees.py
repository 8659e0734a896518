"""What the policies of several trees share: later heads that follow the first, in rounds."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, get_args

import chex
import jax.numpy as jnp
import mctx

from dualmctx.checks import (
    MOST,
    are_counts,
    check,
    check_count,
    check_share,
    is_whole,
    show,
)
from dualmctx.policies import root as roots
from dualmctx.policies import weights
from dualmctx.policies.opening import Opening, add_root_noise, close_search, open_search
from dualmctx.policies.options import Puct, check_several_trees, make_grow
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.keys import split_key
from dualmctx.search.select import completed_qvalues
from dualmctx.search.simulate import Refinement, Rounds, refine_tree, run_rounds
from dualmctx.search.tree import Tree, get_children, root_passes
from dualmctx.types import EvaluateFn, Params, RefineFn

Weights = Literal["small_visits", "all_visits", "large_visits", "regularized"]
"""The policy that a search of several trees returns.

`small_visits` are the visits of the first tree, which selects by values that all later heads have
corrected. Under a window they are the simulations that passed, as in the priorities of the later
trees (`root_passes`), because windowed visits saturate near the root. `all_visits` are the visits
of all trees. `large_visits` are the last tree's visits, smoothed (Kadam, Xu, Lieberherr 2021, eq.
2). `regularized` is the regularised policy of the last tree's Q.
"""


class TreesOptions(Protocol):
    """The options that the policies of several trees have in common; see `Dual` for each."""

    @property
    def num_simulations(self) -> tuple[int, ...]:
        """The budgets of the trees, first to last."""
        ...

    @property
    def value_mix(self) -> float:
        """α in [0, 1], the weight of the earlier heads' value."""
        ...

    @property
    def prior_mix(self) -> float:
        """β in [0, 1], the weight of the earlier heads' policy."""
        ...

    @property
    def action_weights(self) -> Weights:
        """The policy returned."""
        ...

    @property
    def puct(self) -> Puct:
        """How every tree is searched."""
        ...

    @property
    def reuse_capacity(self) -> int:
        """Room for nodes of the last move's trees."""
        ...


def check_trees(options: TreesOptions) -> None:
    """Checks these options; raises a one-line `ValueError` for the first that is wrong."""
    check_count("reuse_capacity", options.reuse_capacity, 0)
    check_share(options, "value_mix", "prior_mix")
    check_several_trees(options.puct, type(options).__name__)
    mode, modes = options.action_weights, get_args(Weights)
    check(mode in modes, "action_weights", mode, f"one of {', '.join(modes)}")


def check_budgets(value: object, is_right: Callable[[tuple[int, ...]], bool], remedy: str) -> None:
    """Refuses budgets that are no tuple of whole numbers of at least 0, or not right."""
    is_small = not are_counts(value) or sum(value) <= MOST
    check(is_small, "num_simulations", show(value), f"at most {MOST} in all")
    check(are_counts(value) and is_right(value), "num_simulations", show(value), remedy)


def check_rounds(num_rounds: int, most: int, what: str) -> None:
    """Refuses more rounds than a later tree has simulations."""
    is_right = is_whole(num_rounds) and 1 <= num_rounds <= most
    check(is_right, "num_rounds", num_rounds, f"a whole number from 1 to {what}")


def search_trees(
    options: TreesOptions,
    params: Params,
    rng_key: chex.PRNGKey,
    inputs: Inputs,
    *,
    rounds: Rounds,
    search_tree: Tree | None = None,
) -> mctx.PolicyOutput:
    """Searches K trees from a batch of roots.

    Tree 0 is grown by PUCT with `recurrent_fn`. Tree k evaluates, by the k-th later head, the nodes
    that the trees before it found, best first (see `frontier`), always mixed with what the heads
    before it said. Nodes that a later tree has to find by itself are evaluated by all heads up to
    its own, in order. K = 1 is AlphaZero by the first head.

    Args:
      options: of the policy.
      params: passed on to the evaluations.
      rng_key: consumed.
      inputs: what the policy was called with; `refine_fn` is one function for K = 2, a tuple of
        K − 1 for more.
      rounds: for each round the simulations of each of the K trees.
      search_tree: what `get_subtree` made of the last move's trees, or `None`.

    Returns:
      The policy's output; `search_tree` has K layers.

    Raises:
      ValueError: when there are too few later heads, in one line.

    Source: Kadam, Xu, Lieberherr 2021, sections 3 and 6. With no first tree to speak of (a budget
    of 0) nothing is common to two trees and nothing is mixed: our reading.
    """
    budgets = tuple(map(sum, zip(*rounds, strict=True)))
    noise_key, root_key, search_key, action_key = split_key(rng_key, 4)
    opening = open_search(
        options.puct,
        inputs,
        num_new=sum(budgets),
        reuse_capacity=options.reuse_capacity,
        num_trees=len(budgets),
        search_tree=search_tree,
    )
    follows = _make_follows(options, opening, budgets)
    tree = _evaluate_root(params, root_key, opening.tree, follows)
    clean_prior = tree.children_prior[:, Tree.ROOT_INDEX]
    tree = add_root_noise(noise_key, tree, options.puct)
    spec = make_grow(options.puct, opening.evaluate_fn, num_simulations=opening.longest)
    tree = run_rounds(
        params, search_key, tree, spec, follows, rounds=rounds, first_slot=opening.first_slot
    )
    action_weights = read_weights(options, tree, clean_prior)
    return close_search(action_key, options.puct, opening, tree, action_weights)


def _make_follows(
    options: TreesOptions, opening: Opening, budgets: tuple[int, ...]
) -> tuple[Refinement, ...]:
    given = opening.refine_fn
    refine_fns = given if isinstance(given, tuple) else (given,)
    num_later = len(budgets) - 1
    if len(refine_fns) < num_later:
        raise ValueError(
            f"refine_fn is {len(refine_fns)} functions; it must be {num_later}, one for each tree"
            " after the first"
        )
    # Without a first tree no state is common to it and others, so there is nothing to mix.
    mixes = (options.value_mix, options.prior_mix) if budgets[0] > 0 else (0.0, 0.0)
    evaluate_fn, follows = opening.evaluate_fn, []
    for tree_index, refine_fn in enumerate(refine_fns[:num_later], 1):
        evaluate_fn = _evaluate_also(evaluate_fn, refine_fn, *mixes)
        spec = make_grow(
            options.puct, evaluate_fn, num_simulations=opening.longest, tree_index=tree_index
        )
        follows.append(Refinement(refine_fn, roots.legal_probabilities, *mixes, spec))
    return tuple(follows)


def _evaluate_root(
    params: Params, rng_key: chex.PRNGKey, tree: Tree, follows: tuple[Refinement, ...]
) -> Tree:
    """Has every later head evaluate the root, which is in all trees from the start."""
    leaves = jnp.zeros((tree.parents.shape[0], 1), jnp.int32)
    is_invalid = tree.root_invalid_actions.astype(bool)

    def to_prior(logits: chex.Array) -> chex.Array:
        return roots.legal_probabilities(roots.mask_logits(logits, is_invalid))

    for how in follows:
        rng_key, refine_key = split_key(rng_key)
        # A kept root may be in this tree already.
        is_new = tree.stats[how.spec.tree_index].node_visits[:, :1] == 0
        tree = refine_tree(
            params, refine_key, tree, how._replace(to_prior=to_prior), leaves, is_new
        )
    return tree


def _evaluate_also(
    evaluate_fn: EvaluateFn, refine_fn: RefineFn, value_mix: float, prior_mix: float
) -> EvaluateFn:
    """Evaluates new nodes of a later tree that none has seen, by the heads before and its own."""

    def evaluate(params: Params, rng_key: chex.PRNGKey, action: Any, embedding: Any) -> tuple:
        first_key, second_key = split_key(rng_key)
        first, embedding = evaluate_fn(params, first_key, action, embedding)
        logits, value = refine_fn(params, second_key, embedding)
        prior = prior_mix * first.prior + (1 - prior_mix) * roots.legal_probabilities(logits)
        value = jnp.where(
            first.discount == 0, first.value, value_mix * first.value + (1 - value_mix) * value
        )
        return first._replace(prior=prior, value=value), embedding

    return evaluate


def read_weights(options: TreesOptions, tree: Tree, prior: chex.Array) -> chex.Array:
    """Reads the policy off the trees after a search.

    Args:
      options: of the policy.
      tree: of K layers.
      prior: `[B, A]` the root's prior without noise.

    Returns:
      `[B, A]` weights that sum to 1.
    """
    first, last = 0, len(tree.stats) - 1
    root = jnp.zeros(prior.shape[0], jnp.int32)
    children = get_children(tree, root, last)
    if options.action_weights == "large_visits":
        return weights.smoothed_visits(children.visits, prior > 0)
    if options.action_weights == "all_visits":
        visits = [get_children(tree, root, i).visits for i in range(last + 1)]
        return _shares(jnp.sum(jnp.stack(visits), axis=0), prior.dtype)
    if options.action_weights == "small_visits":
        # Without simulations of the first tree, the last one is the only one that has visits.
        tree_index = first if options.num_simulations[0] > 0 else last
        return _shares(root_passes(tree, tree_index), prior.dtype)
    qvalues = completed_qvalues(tree, root, last)
    total = jnp.sum(children.visits, axis=-1)
    return weights.regularized_policy(prior, qvalues, total, c_puct=options.puct.c_puct)


def _shares(visits: chex.Array, dtype: Any) -> chex.Array:
    """Divides `[B, A]` visits by their sums."""
    visits = visits.astype(dtype)
    return visits / jnp.sum(visits, axis=-1, keepdims=True)
