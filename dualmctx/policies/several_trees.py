"""The search with several trees that `Dual`, `Chain` and `MPV` share."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, Self, get_args

import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import (
    MAX_COUNT,
    are_counts,
    check,
    check_choice,
    check_count,
    check_share,
    describe,
    is_whole,
    normalize_options,
    show,
)
from dualmctx.policies import root as roots
from dualmctx.policies.base import PuctSearch
from dualmctx.policies.conflicts import check_several_trees
from dualmctx.policies.search_setup import (
    SearchSetup,
    add_root_noise,
    make_output,
    set_up_search,
)
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.keys import split_key
from dualmctx.search.node import EvaluateFn, Node, NodeInit
from dualmctx.search.phases import SearchState, start_search
from dualmctx.search.refine import mix_priors, refine
from dualmctx.search.rules import regularized_policy
from dualmctx.search.select import CompletedMeans
from dualmctx.search.spec import Refinement, Rounds, SearchSpec
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RefineFn, Traits

ActionWeights = Literal["small_visits", "all_visits", "large_visits", "regularized"]
"""The policy that a search with several trees returns; see `SeveralTrees.action_weights`.

With a window, `small_visits` are the simulations that passed through each action (`Node.passes`),
because windowed visits saturate near the root; `frontier` uses the same numbers. `large_visits` are
eq. 2 of Kadam, Xu, Lieberherr 2021.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeveralTrees(PuctSearch):
    """The options and the end of a search with several trees."""

    num_simulations: tuple[int, ...] = dataclasses.field(default=(50, 35), kw_only=False)
    """Simulations per search in each tree, first to last."""
    value_mix: float = 0.25
    """Weight α of the earlier head's value if two heads evaluated a state, in [0, 1]."""
    prior_mix: float = 0.25
    """Weight β of the earlier head's policy, in the same case."""
    action_weights: ActionWeights = "small_visits"
    """The policy returned. small_visits: visits of the first tree, whose values all later heads
    have corrected. all_visits: visits of all trees. large_visits: smoothed visits of the last tree,
    as in the paper. regularized: the regularised policy from the Q-values of the last tree."""

    def __post_init__(self) -> None:
        """Checks the options, except the budgets."""
        normalize_options(self)
        check_count("reuse_capacity", self.reuse_capacity, 0)
        check_share(self, "value_mix", "prior_mix")
        check_several_trees(self)
        check_choice("action_weights", self.action_weights, get_args(ActionWeights))

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads of the trees: the first ones in order, and the final head for the last tree."""
        return (*range(len(self.num_simulations) - 1), -1)

    @property
    def rounds(self) -> Rounds:
        """The simulations of each tree, for each round."""
        raise NotImplementedError

    @property
    def traits(self) -> Traits:
        """The rounds, and the capacity for nodes reused between moves."""
        return Traits(num_rounds=len(self.rounds), reuse_capacity=self.reuse_capacity)

    def with_rounds(self, rounds: Rounds) -> Self:
        """Returns the policy with the budgets and the number of other rounds.

        Raises:
          ValueError: if the policy does not allow them.
        """
        budgets = tuple(map(sum, zip(*rounds, strict=True)))
        changes: dict[str, Any] = {"num_simulations": budgets, "num_rounds": len(rounds)}
        return dataclasses.replace(self, **changes)

    def set_up(self, params: Params, rng_key: Array, inputs: Inputs) -> SearchState:
        """Sets up the search of K trees from a batch of roots.

        PUCT grows tree 0 with `recurrent_fn`. Tree k evaluates, by the k-th later head, the nodes
        that the earlier trees created, best first (see `frontier`). The output of each head is
        mixed with those of the heads before it. If there are too few such nodes, tree k creates new
        nodes, which all heads up to its own evaluate in order. K = 1 is AlphaZero with the first
        head.

        Source: Kadam, Xu, Lieberherr 2021, sections 3 and 6. Our reading: if the first tree has a
        budget of 0, nothing is mixed, because no node is common to two trees.
        """
        rounds = self.rounds
        if not any(shares[-1] for shares in rounds):
            # A later tree without simulations has a function, but is not grown.
            rounds = tuple(shares[:-1] for shares in rounds)
        budgets = tuple(map(sum, zip(*rounds, strict=True)))
        noise_key, root_key, search_key, action_key = split_key(rng_key, 4)
        setup = set_up_search(self, inputs, num_trees=len(budgets))
        later = _make_later(self, setup, budgets)
        tree = _evaluate_root(params, root_key, setup.tree, later)
        return start_search(
            search_key,
            add_root_noise(noise_key, tree, self.root, self.execution.kernels),
            setup.make_spec(self.make_rule()),
            *later,
            rounds=rounds,
            first_slot=setup.first_slot,
            output_key=action_key,
            prior=tree.children_prior[:, Tree.ROOT_INDEX],
            num_actions=setup.num_actions,
        )

    def finish(self, state: SearchState) -> mctx.PolicyOutput:
        """Returns the result of a search, from the visits or values of the roots."""
        return make_output(state, self.root, _read_weights(self, state.tree, state.prior))


def check_budgets(value: object, is_valid: Callable[[tuple[int, ...]], bool], remedy: str) -> None:
    """Checks that budgets are whole numbers, each at least 0, and that `is_valid` accepts them."""
    is_small = not are_counts(value) or sum(value) <= MAX_COUNT
    check(is_small, "num_simulations", show(value), f"at most {MAX_COUNT} in total")
    check(are_counts(value) and is_valid(value), "num_simulations", show(value), remedy)


def check_rounds(num_rounds: int, most: int, limit: str) -> None:
    """Checks that the number of rounds is from 1 to `most`; `limit` describes `most` in words."""
    is_valid = is_whole(num_rounds) and 1 <= num_rounds <= most
    check(is_valid, "num_rounds", describe(num_rounds), f"a whole number from 1 to {limit}")


def _make_later(
    options: SeveralTrees, setup: SearchSetup, budgets: tuple[int, ...]
) -> list[SearchSpec]:
    """Returns the specifications of the trees after the first."""
    given: RefineFn | tuple[RefineFn, ...] = setup.refine_fn
    refine_fns = given if isinstance(given, tuple) else (given,)
    # Without a first tree, no state is common to two trees, so there is nothing to mix.
    mixes = (options.value_mix, options.prior_mix) if budgets[0] > 0 else (0.0, 0.0)
    evaluate_fn, rule, specs = setup.evaluate_fn, options.make_rule(), list[SearchSpec]()
    for tree_index, refine_fn in enumerate(refine_fns[: len(budgets) - 1], 1):
        evaluate_fn = _evaluate_also(evaluate_fn, refine_fn, *mixes)
        spec = setup.make_spec(rule, evaluate_fn=evaluate_fn, tree_index=tree_index)
        refinement = Refinement(refine_fn, roots.legal_probabilities, *mixes)
        specs.append(spec._replace(refinement=refinement))
    return specs


def _evaluate_root(params: Params, rng_key: Array, tree: Tree, specs: list[SearchSpec]) -> Tree:
    """Evaluates the root by every later head, because all trees contain the root from the start."""
    leaves = jnp.zeros((tree.parents.shape[0], 1), jnp.int32)

    def to_prior(logits: Array) -> Array:
        return roots.legal_probabilities(logits, tree.root_invalid_actions)

    for spec in specs:
        rng_key, refine_key = split_key(rng_key)
        # The tree may have visited a reused root already.
        is_new = tree.stats[spec.tree_index].node_visits[:, :1] == 0
        refinement = spec.refinement and spec.refinement._replace(to_prior=to_prior)
        at_root = spec._replace(refinement=refinement)
        tree, _ = refine(params, refine_key, tree, at_root, leaves, is_new)
    return tree


def _evaluate_also(
    evaluate_fn: EvaluateFn, refine_fn: RefineFn, value_mix: float, prior_mix: float
) -> EvaluateFn:
    """Returns a function that evaluates new nodes by `evaluate_fn`, then by `refine_fn`."""

    def evaluate(
        params: Params, rng_key: Array, action: Array, embedding: Any
    ) -> tuple[NodeInit, Any]:
        first_key, second_key = split_key(rng_key)
        first, embedding = evaluate_fn(params, first_key, action, embedding)
        logits, value = refine_fn(params, second_key, embedding)
        prior = mix_priors(first.prior, roots.legal_probabilities(logits), prior_mix)
        value = jnp.where(
            first.discount == 0, first.value, value_mix * first.value + (1 - value_mix) * value
        )
        return first._replace(prior=prior, value=value), embedding

    return evaluate


def _read_weights(options: SeveralTrees, tree: Tree, prior: Array) -> Array:
    """Returns the `[B, A]` policy, from the trees and the root's prior without noise."""
    nodes = [Node(tree, Tree.ROOT_INDEX, tree_index=i) for i in range(len(tree.stats))]
    last = nodes[-1]
    if options.action_weights == "large_visits":
        return roots.smoothed_visits(last.visits, prior > 0)
    if options.action_weights == "all_visits":
        visits = jnp.sum(jnp.stack([node.visits for node in nodes]), axis=0)
        return roots.visit_shares(visits.astype(prior.dtype), prior)
    if options.action_weights == "small_visits":
        # If the first tree has no simulations, only the last tree has visits.
        node = nodes[0] if options.num_simulations[0] > 0 else last
        return roots.visit_shares(node.passes.astype(prior.dtype), prior)
    total = jnp.sum(last.visits, axis=-1)
    return regularized_policy(prior, CompletedMeans()(last), total, c_puct=options.puct.c_puct)
