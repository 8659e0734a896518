"""The start and the end of a search by PUCT: trees, root noise, and the policy's output."""

from typing import Any, NamedTuple

import mctx
from jax import Array

from dualmctx.policies import root as roots
from dualmctx.policies.nonfinite import finite_refine_fn, finite_root
from dualmctx.policies.option_groups import Backup, Execution, Root
from dualmctx.policies.reuse import insert_subtree
from dualmctx.policies.top_actions import Inputs, RestoreFn, keep_top_actions
from dualmctx.search.allocate import allocate
from dualmctx.search.phases import SearchState
from dualmctx.search.refine import map_refine_fns
from dualmctx.search.statistics import Statistic, add_statistics
from dualmctx.search.tree import Tree
from dualmctx.types import ActingOutput, EvaluateFn, Kernels


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
