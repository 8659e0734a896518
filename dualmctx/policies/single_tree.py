"""The search with one tree by PUCT that `AlphaZero`, `AlphaGo` and `Contempt` share."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import check_budget, normalize_options
from dualmctx.policies.action_weights import regularized_policy, smoothed_visits
from dualmctx.policies.base import PuctSearch, check_own_rule, check_single_tree
from dualmctx.policies.call_checks import checked_output
from dualmctx.policies.root_head import OneTree, replace_root_prior
from dualmctx.policies.search_setup import (
    add_root_noise,
    make_output,
    make_qvalues,
    make_rule,
    make_search_spec,
    make_statistics,
    set_up_search,
    with_window_exploration,
)
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.keys import split_key
from dualmctx.search.node import Node, RuleFn
from dualmctx.search.phases import SearchState, start_search
from dualmctx.search.select import CompletedMeans
from dualmctx.search.statistics import Statistic
from dualmctx.search.tree import Tree, get_children
from dualmctx.types import Params


@dataclasses.dataclass(frozen=True)
class SingleTree(OneTree, PuctSearch):
    """The options and the end of a PUCT search with one tree."""

    num_simulations: int = 85
    """Simulations per search, not counting the evaluation of the root; at least 1."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        check_budget(self)
        self.check_heads()
        check_single_tree(self)

    @checked_output
    def output(self, state: SearchState) -> mctx.PolicyOutput:
        """Returns the result of a search, from the visits of the root.

        `Root.visit_weights` may smooth the visits. `Puct.regularized` may replace them by the
        regularised policy, computed from the root's prior without noise and the Q-values of the
        search, with the root's own value for unvisited actions.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, which sum to 1; and `search_tree`, a
          `dualmctx.Tree`. With `max_children`, the tree has an axis of action slots, see
          `dualmctx.search.slots`. It is an `ActingOutput` if actions are sampled from other weights
          than the training target.

        Source: Kadam, Xu, Lieberherr 2021, eq. 2, for the smoothed visits; Grill et al. 2020,
        section 4, "Act" and "Learn", for the regularised policy.
        """
        uses = self.puct.regularized
        clean_prior, tree = state.prior, state.tree
        counts = get_children(tree, Tree.ROOT_INDEX).visits
        visits = tree.summary().visit_probs
        if self.root.visit_weights == "smoothed":
            visits = smoothed_visits(counts, clean_prior > 0)
        if "act" not in uses and "learn" not in uses:
            return make_output(state, self.root, visits)
        policy = regularized_policy(
            clean_prior,
            make_qvalues(self.puct, CompletedMeans())(Node(tree, Tree.ROOT_INDEX)),
            jnp.sum(counts, axis=-1),
            c_puct=self.puct.c_puct,
        )
        act, learn = (policy if use in uses else visits for use in ("act", "learn"))
        acting_weights = None if act is learn else act
        return make_output(state, self.root, learn, acting_weights)


def init_single_tree(
    options: SingleTree,
    params: Params,
    rng_key: Array,
    inputs: Inputs,
    *,
    search_tree: Tree | None = None,
    rule: RuleFn | None = None,
    wrap_rule: Callable[[RuleFn], RuleFn] | None = None,
    statistics: tuple[Statistic, ...] = (),
) -> SearchState:
    """Sets up AlphaZero's search, of one tree by PUCT, from a batch of roots.

    Args:
      options: the policy.
      params: passed on to the evaluations.
      rng_key: consumed.
      inputs: the arguments of the policy.
      search_tree: the previous move's tree, as returned by `get_subtree`, or `None`.
      rule: the variant's own rule, in place of PUCT and without the exploration outside a
        window; `None` for PUCT. Options that change PUCT's Q are then refused.
      wrap_rule: makes the variant's own rule from the rule of the options; `None` for no change.
      statistics: the variant's own additional statistics, besides those of the options.

    Returns:
      The state before the first simulation.

    Raises:
      ValueError: if there is a `rule`, and options that it ignores are set.
    """
    rng_key, inputs = options.with_second_opinion(params, rng_key, inputs)
    noise_key, search_key, action_key = split_key(rng_key, 3)
    statistics = (*make_statistics(options.puct), *statistics)
    setup = set_up_search(
        inputs,
        options.backup,
        options.execution,
        num_new=options.num_simulations,
        reuse_capacity=options.reuse_capacity,
        search_tree=search_tree,
        statistics=statistics,
    )
    if search_tree is not None and options.root_head is not None:
        setup = setup._replace(tree=replace_root_prior(setup.tree, inputs))
    tree = add_root_noise(noise_key, setup.tree, options.root, options.execution.kernels)
    spec = make_search_spec(options, setup.evaluate_fn, num_simulations=setup.max_path)
    if rule is not None:
        check_own_rule(options)
    if wrap_rule is not None:
        rule = wrap_rule(rule or make_rule(options.puct))
    if rule is not None:
        spec = spec._replace(rule=with_window_exploration(options.backup, rule))
    return start_search(
        search_key,
        tree,
        spec._replace(statistics=statistics),
        rounds=((options.num_simulations,),),
        first_slot=setup.first_slot,
        output_key=action_key,
        prior=setup.tree.children_prior[:, Tree.ROOT_INDEX],
        restore=setup.restore,
    )
