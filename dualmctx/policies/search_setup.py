"""The start and the end of a search: trees, rules, root noise, and the policy's output."""

from typing import Any, NamedTuple

import mctx
from jax import Array

from dualmctx.checks import check, describe
from dualmctx.policies import root as roots
from dualmctx.policies.base import SearchPolicy
from dualmctx.policies.options import Root
from dualmctx.policies.reuse import insert_subtree, replace_root_prior
from dualmctx.policies.root import finite_refine_fn, finite_root
from dualmctx.policies.top_actions import Inputs, keep_top_actions, restore_actions
from dualmctx.search.backend import choose_backend
from dualmctx.search.climb import Statistic, add_statistics
from dualmctx.search.expand import allocate
from dualmctx.search.node import EvaluateFn, Rule
from dualmctx.search.phases import SearchState
from dualmctx.search.refine import map_refine_fns
from dualmctx.search.select import ExploringRule
from dualmctx.search.spec import Backend, SearchSpec
from dualmctx.search.tree import Tree
from dualmctx.types import ActingOutput, Kernels, tree_budgets


class SearchSetup(NamedTuple):
    """The state and the functions with which a search starts.

    Attributes:
      tree: trees that hold their roots, and reused subtrees if there are any.
      evaluate_fn: plays actions and evaluates the resulting states; its priors have the form of
        those of the root.
      refine_fn: evaluates by a later head, or a tuple of such functions; `None` for none.
      first_slot: this slot and all later ones are empty.
      num_actions: A if the root's action slots are not all actions, else `None`.
      backend: runs the loops of the search.
      policy: the policy, with its options of the backup and of the execution.
      statistics: the additional statistics of the first tree.
    """

    tree: Tree
    evaluate_fn: EvaluateFn
    refine_fn: Any
    first_slot: int
    num_actions: int | None
    backend: Backend
    policy: SearchPolicy
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
        backup, execution = self.policy.backup, self.policy.execution
        for given in (rule, root_rule or rule):
            check(isinstance(given, Rule), "rule", describe(given), "a dualmctx.search.node.Rule")
            is_guessed = execution.speculation > 1 and given.samples
            remedy = f"1 with the rule {type(given).__name__}, which samples: no guess can hold"
            check(not is_guessed, "speculation", execution.speculation, remedy)
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
    policy: SearchPolicy,
    inputs: Inputs,
    *,
    num_trees: int = 1,
    statistics: tuple[Statistic, ...] = (),
    logits: Array | None = None,
    extra_data: Any = None,
) -> SearchSetup:
    """Allocates the trees, with room for all simulations, and inserts reused subtrees.

    Args:
      policy: the policy: its budgets, its `reuse_capacity`, and its options of the backup and of
        the execution.
      inputs: the arguments of the policy.
      num_trees: number of trees that share the nodes.
      statistics: additional statistics of the first tree.
      logits: `[B, A]` the root's prior for rules of mctx; `None` for the probabilities of PUCT.
      extra_data: `[B, ...]` passed on to mctx's rules.

    Returns:
      The setup. The root's prior has no noise yet.
    """
    given, search_tree, execution = inputs, inputs.search_tree, policy.execution
    reuse_capacity = policy.traits.reuse_capacity
    root, refine_fn = finite_root(inputs.root), map_refine_fns(finite_refine_fn, inputs.refine_fn)
    whole = inputs._replace(root=root, refine_fn=refine_fn)
    inputs = keep_top_actions(whole, execution.max_children)
    root, prior, evaluate_fn = inputs.root, logits, roots.evaluate_by(inputs.recurrent_fn)
    if prior is None:
        prior = roots.legal_probabilities(root.prior_logits, inputs.invalid_actions)
        evaluate_fn = roots.evaluate_by(inputs.recurrent_fn, roots.legal_probabilities)
    tree = allocate(
        prior,
        root.value,
        root.embedding,
        num_nodes=1 + reuse_capacity + sum(tree_budgets(policy)),
        invalid_actions=inputs.invalid_actions,
        num_trees=num_trees,
        windowed=policy.backup.window is not None,
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
        if inputs.renews_root:
            tree = replace_root_prior(tree, given.root)
    return SearchSetup(
        tree=tree,
        evaluate_fn=evaluate_fn,
        refine_fn=inputs.refine_fn,
        first_slot=1 + reuse_capacity,
        num_actions=None if inputs is whole else whole.root.prior_logits.shape[1],
        backend=choose_backend(execution.kernels, tree.children_prior),
        policy=policy,
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
    num_actions = state.plan.num_actions
    return output if num_actions is None else restore_actions(output, num_actions)
