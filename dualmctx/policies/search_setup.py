"""The start and the end of a search by PUCT: trees, rules, root noise, and the policy's output."""

from typing import Any, NamedTuple

import mctx
from jax import Array

from dualmctx.policies import root as roots
from dualmctx.policies.action_weights import RegularizedRule
from dualmctx.policies.base import PuctSearch
from dualmctx.policies.option_groups import Backup, Execution, Puct, Root
from dualmctx.policies.reuse import insert_subtree
from dualmctx.policies.root import finite_refine_fn, finite_root
from dualmctx.policies.top_actions import Inputs, RestoreFn, keep_top_actions
from dualmctx.search.allocate import allocate
from dualmctx.search.mixed_means import MINIMAX, RAVE, MinimaxMix, RaveMix
from dualmctx.search.node import Rule, RuleFn
from dualmctx.search.phases import SearchState
from dualmctx.search.refine import map_refine_fns
from dualmctx.search.select import CompletedMeans, ExploringRule, Means, PuctRule, QValues
from dualmctx.search.simulate import SearchSpec
from dualmctx.search.statistics import Statistic, add_statistics
from dualmctx.search.tree import EvaluateFn, Tree
from dualmctx.types import ActingOutput, Kernels


class SearchSetup(NamedTuple):
    """The state and the functions with which a search starts.

    Attributes:
      tree: trees that hold their roots, and reused subtrees if there are any.
      evaluate_fn: plays actions and evaluates the resulting states; its priors are probabilities.
      refine_fn: evaluates by a later head, or a tuple of such functions; `None` for none.
      first_slot: this slot and all later ones are empty.
      max_path: the largest number of edges that a path can have.
      restore: converts an output over the root's action slots to one over all actions; `None` if
        slots are actions.
    """

    tree: Tree
    evaluate_fn: EvaluateFn
    refine_fn: Any
    first_slot: int
    max_path: int
    restore: RestoreFn | None


def set_up_search(
    inputs: Inputs,
    backup: Backup,
    execution: Execution,
    *,
    num_new: int,
    reuse_capacity: int = 0,
    num_trees: int = 1,
    search_tree: Tree | None = None,
    statistics: tuple[Statistic, ...] = (),
) -> SearchSetup:
    """Allocates the trees and inserts reused subtrees.

    Args:
      inputs: the arguments of the policy.
      backup: the policy's options of the backup.
      execution: the policy's options of the execution.
      num_new: number of nodes that the search may add.
      reuse_capacity: nodes reused from the previous move's trees, not counting the root.
      num_trees: number of trees that share the nodes.
      search_tree: the previous move's trees, as returned by `get_subtree`, or `None`.
      statistics: additional statistics of the first tree.

    Returns:
      The setup. The root's prior has no noise yet.
    """
    # A reused root may have other action slots than `root`, so it is masked by the game's actions.
    invalid_in_game = inputs.invalid_actions
    inputs = inputs._replace(
        root=finite_root(inputs.root), refine_fn=map_refine_fns(finite_refine_fn, inputs.refine_fn)
    )
    inputs, restore = keep_top_actions(inputs, execution.max_children)
    root, recurrent_fn, refine_fn, invalid_actions = inputs
    prior = roots.legal_probabilities(root.prior_logits, invalid_actions)
    tree = allocate(
        roots.root_evaluation(root, prior),
        root.embedding,
        num_nodes=1 + reuse_capacity + num_new,
        invalid_actions=roots.no_invalid_actions(root, invalid_actions),
        num_trees=num_trees,
        windowed=backup.window is not None,
        is_kept=reuse_capacity > 0,
        num_virtual=execution.virtual_loss * execution.leaves_per_step,
    )
    tree = add_statistics(tree, statistics)
    if search_tree is not None:
        tree = insert_subtree(
            tree,
            search_tree,
            invalid_in_game,
            reuse_capacity=reuse_capacity,
            statistics=statistics,
        )
    evaluate_fn = roots.evaluate_probabilities(recurrent_fn)
    return SearchSetup(
        tree, evaluate_fn, refine_fn, 1 + reuse_capacity, reuse_capacity + num_new, restore
    )


def add_root_noise(rng_key: Array, tree: Tree, root: Root, kernels: Kernels) -> Tree:
    """Mixes Dirichlet noise into the roots' priors; consumes the key."""
    prior = roots.add_dirichlet_noise(
        rng_key,
        tree.children_prior[:, Tree.ROOT_INDEX],
        fraction=root.dirichlet_fraction,
        alpha=root.dirichlet_alpha,
        kernels=kernels,
    )
    return tree.replace(children_prior=tree.children_prior.at[:, Tree.ROOT_INDEX].set(prior))


def make_output(
    state: SearchState,
    root: Root,
    action_weights: Array,
    acting_weights: Array | None = None,
) -> mctx.PolicyOutput:
    """Samples the action and builds the policy's output.

    Args:
      state: the search, whose `output_key` is consumed.
      root: the policy's options of the root, with the temperature.
      action_weights: `[B, A]`, the training target.
      acting_weights: `[B, A]`, from which the action is sampled; by default from the target.

    Returns:
      The policy's output; an `ActingOutput` if there are `acting_weights`.
    """
    sampling_weights = action_weights if acting_weights is None else acting_weights
    action = roots.sample_action(state.output_key, sampling_weights, root.temperature)
    parts: dict[str, Any] = {
        "action": action,
        "action_weights": action_weights,
        "search_tree": state.tree,
    }
    output = mctx.PolicyOutput(**parts)
    if acting_weights is not None:
        output = ActingOutput(**parts, acting_weights=acting_weights)
    return output if state.restore is None else state.restore(output)


def with_window_exploration(backup: Backup, rule: RuleFn) -> RuleFn:
    """Wraps a rule in the epsilon-greedy exploration outside a window.

    Without a window the rule is returned unchanged. A variant must apply this wrapper last.
    """
    if backup.window is None:
        return rule
    return ExploringRule(rule, backup.explore_fraction, backup.explore_decay, backup.window)


def make_qvalues(options: Puct, qvalues: QValues) -> QValues:
    """Returns Q: means, mixed with minimax values and RAVE if set."""
    if options.minimax_mix:
        qvalues = MinimaxMix(options.minimax_mix, qvalues)
    if options.rave_visits is not None:
        qvalues = RaveMix(options.rave_visits, qvalues)
    return qvalues


def make_rule(options: Puct) -> Rule:
    """Returns the selection rule, without the exploration outside a window."""
    if "search" in options.regularized:
        return RegularizedRule(options.c_puct, make_qvalues(options, CompletedMeans()))
    return PuctRule(options.c_puct, make_qvalues(options, Means()))


def make_statistics(options: Puct) -> tuple[Statistic, ...]:
    """Returns the statistics that the functions of `make_qvalues` read."""
    minimax = (MINIMAX,) if options.minimax_mix else ()
    rave = (RAVE,) if options.rave_visits is not None else ()
    return (*minimax, *rave)


def make_search_spec(
    options: PuctSearch, evaluate_fn: EvaluateFn, *, num_simulations: int, tree_index: int = 0
) -> SearchSpec:
    """Returns the specification of the simulations of one tree."""
    puct, execution = options.puct, options.execution
    return SearchSpec(
        evaluate_fn=evaluate_fn,
        rule=with_window_exploration(options.backup, make_rule(puct)),
        max_depth=execution.max_depth or num_simulations,
        window=options.backup.window,
        tree_index=tree_index,
        leaves_per_step=execution.leaves_per_step,
        statistics=make_statistics(puct),
        virtual_loss=execution.virtual_loss,
        speculation=execution.speculation,
        kernels=execution.kernels,
    )
