"""The start and the end of a search: trees, rules, root noise, and the policy's output."""

from typing import Any, NamedTuple

import mctx
from jax import Array

from dualmctx.checks import check, describe
from dualmctx.policies import root as roots
from dualmctx.policies.options import Backup, Execution, Puct, Root
from dualmctx.policies.reuse import insert_subtree, replace_root_prior
from dualmctx.policies.root import finite_refine_fn, finite_root
from dualmctx.policies.top_actions import Inputs, RestoreFn, keep_top_actions
from dualmctx.search.backend import choose_backend
from dualmctx.search.climb import Statistic, add_statistics
from dualmctx.search.expand import allocate
from dualmctx.search.node import EvaluateFn, Rule
from dualmctx.search.phases import SearchState
from dualmctx.search.refine import map_refine_fns
from dualmctx.search.rules import Minimax, MinimaxMix, Rave, RaveMix, RegularizedRule
from dualmctx.search.select import CompletedMeans, ExploringRule, Means, PuctRule, QValues
from dualmctx.search.spec import Backend, SearchSpec
from dualmctx.search.tree import Tree
from dualmctx.types import ActingOutput, Kernels


class SearchSetup(NamedTuple):
    """The state and the functions with which a search starts.

    Attributes:
      tree: trees that hold their roots, and reused subtrees if there are any.
      evaluate_fn: plays actions and evaluates the resulting states; its priors have the form of
        those of the root.
      refine_fn: evaluates by a later head, or a tuple of such functions; `None` for none.
      first_slot: this slot and all later ones are empty.
      restore: converts an output over the root's action slots to one over all actions; `None` if
        slots are actions.
      backend: runs the loops of the search.
      backup: the policy's options of the backup.
      execution: the policy's options of the execution.
      statistics: the additional statistics of the first tree.
    """

    tree: Tree
    evaluate_fn: EvaluateFn
    refine_fn: Any
    first_slot: int
    restore: RestoreFn | None
    backend: Backend
    backup: Backup
    execution: Execution
    statistics: tuple[Statistic, ...]

    def make_spec(
        self,
        rule: Rule,
        root_rule: Rule | None = None,
        *,
        evaluate_fn: EvaluateFn | None = None,
        tree_index: int = 0,
    ) -> SearchSpec:
        """Returns the specification of the simulations of one tree.

        Args:
          rule: the selection rule, to which the exploration outside a window is added.
          root_rule: the rule at the root, which does not explore; `None` for the same rule.
          evaluate_fn: evaluates new nodes of a later tree; `None` for the first tree.
          tree_index: the tree that grows.
        """
        backup, execution = self.backup, self.execution
        for given in (rule, root_rule or rule):
            check(isinstance(given, Rule), "rule", describe(given), "a dualmctx.search.node.Rule")
        if backup.window is not None:
            options = backup.explore_fraction, backup.explore_decay, backup.window
            rule = ExploringRule(rule, *options)
        return SearchSpec(
            evaluate_fn=evaluate_fn or self.evaluate_fn,
            rule=rule,
            max_depth=execution.max_depth or self.tree.num_nodes - 1,
            backend=self.backend,
            window=backup.window,
            tree_index=tree_index,
            leaves_per_step=execution.leaves_per_step,
            statistics=self.statistics,
            virtual_loss=execution.virtual_loss,
            speculation=execution.speculation,
            root_rule=root_rule,
        )


def set_up_search(
    inputs: Inputs,
    backup: Backup,
    execution: Execution,
    *,
    num_new: int,
    reuse_capacity: int = 0,
    num_trees: int = 1,
    statistics: tuple[Statistic, ...] = (),
    renews_root: bool = False,
    logits: Array | None = None,
    extra_data: Any = None,
) -> SearchSetup:
    """Allocates the trees and inserts reused subtrees.

    Args:
      inputs: the arguments of the policy.
      backup: the policy's options of the backup.
      execution: the policy's options of the execution.
      num_new: number of nodes that the search may add.
      reuse_capacity: nodes reused from the previous move's trees, not counting the root.
      num_trees: number of trees that share the nodes.
      statistics: additional statistics of the first tree.
      renews_root: whether roots of reused trees get the prior and the value of the given roots.
      logits: `[B, A]` the root's prior for rules of mctx; `None` for the probabilities of PUCT.
      extra_data: `[B, ...]` passed on to mctx's rules.

    Returns:
      The setup. The root's prior has no noise yet.
    """
    given, search_tree = inputs, inputs.search_tree
    root, refine_fn = finite_root(inputs.root), map_refine_fns(finite_refine_fn, inputs.refine_fn)
    inputs = inputs._replace(root=root, refine_fn=refine_fn)
    inputs, restore = keep_top_actions(inputs, execution.max_children)
    root, prior, evaluate_fn = inputs.root, logits, roots.evaluate_logits(inputs.recurrent_fn)
    if prior is None:
        prior = roots.legal_probabilities(root.prior_logits, inputs.invalid_actions)
        evaluate_fn = roots.evaluate_probabilities(inputs.recurrent_fn)
    tree = allocate(
        roots.root_evaluation(root, prior),
        root.embedding,
        num_nodes=1 + reuse_capacity + num_new,
        invalid_actions=roots.no_invalid_actions(root, inputs.invalid_actions),
        num_trees=num_trees,
        windowed=backup.window is not None,
        is_kept=reuse_capacity > 0,
        num_virtual=execution.virtual_loss * execution.leaves_per_step,
        extra_data=extra_data,
        prior_is_logits=logits is not None,
    )
    tree = add_statistics(tree, statistics)
    if search_tree is not None:
        # A reused root may have other action slots than `root`, so it is masked by the game's
        # actions.
        options: Any = {"reuse_capacity": reuse_capacity, "statistics": statistics}
        tree = insert_subtree(tree, search_tree, given.invalid_actions, **options)
        if renews_root:
            tree = replace_root_prior(tree, given.root)
    return SearchSetup(
        tree=tree,
        evaluate_fn=evaluate_fn,
        refine_fn=inputs.refine_fn,
        first_slot=1 + reuse_capacity,
        restore=restore,
        backend=choose_backend(execution.kernels, tree.children_prior),
        backup=backup,
        execution=execution,
        statistics=statistics,
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
    minimax = (Minimax(),) if options.minimax_mix else ()
    rave = (Rave(),) if options.rave_visits is not None else ()
    return (*minimax, *rave)
