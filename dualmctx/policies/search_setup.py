"""The start and the end of a search with probabilities as priors: trees, root noise, the output."""

from typing import Any, NamedTuple

import jax
import mctx
from jax import Array

from dualmctx.policies import root as roots
from dualmctx.policies.kept import insert_subtree
from dualmctx.policies.nonfinite import finite_refine_fn, finite_root
from dualmctx.policies.option_groups import Backup, Execution, Root
from dualmctx.policies.top_actions import Inputs, RestoreFn, keep_top_actions
from dualmctx.search.allocate import allocate
from dualmctx.search.statistics import Statistic, add_statistics
from dualmctx.search.tree import Tree
from dualmctx.types import ActingOutput, EvaluateFn


class SearchSetup(NamedTuple):
    """The state and the functions with which a search starts.

    Attributes:
      tree: trees that hold their roots, or kept trees.
      evaluate_fn: plays actions and evaluates the states reached; its priors are probabilities.
      refine_fn: evaluates by a later head, or a tuple of such functions; `None` for none.
      first_slot: the slots from here on are empty.
      max_path: the largest number of edges that a path can have.
      restore: turns an output over the kept actions of the root into one over all actions.
    """

    tree: Tree
    evaluate_fn: EvaluateFn
    refine_fn: Any
    first_slot: int
    max_path: int
    restore: RestoreFn


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
    """Allocates the trees, and inserts kept trees.

    Args:
      inputs: the arguments of the policy.
      backup: the policy's options of the backup.
      execution: the policy's options of the execution.
      num_new: number of nodes that the search may add.
      reuse_capacity: nodes kept from the last move's trees, the root apart.
      num_trees: number of trees that share the topology.
      search_tree: the last move's trees as `get_subtree` returns them, or `None`.
      statistics: further statistics that the first tree keeps of each node.

    Returns:
      The setup. The root's prior has no noise yet.
    """
    # A kept root may hold other actions than `root`, so it is masked by the game's actions.
    invalid_in_game = inputs.invalid_actions
    inputs = inputs._replace(
        root=finite_root(inputs.root), refine_fn=jax.tree.map(finite_refine_fn, inputs.refine_fn)
    )
    inputs, restore = keep_top_actions(inputs, execution.max_children)
    root, recurrent_fn, refine_fn, invalid_actions = inputs
    prior = roots.legal_probabilities(roots.mask_logits(root.prior_logits, invalid_actions))
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


def add_root_noise(rng_key: Array, tree: Tree, root: Root) -> Tree:
    """Mixes Dirichlet noise into the roots' priors; consumes the key."""
    prior = roots.add_dirichlet_noise(
        rng_key,
        tree.children_prior[:, Tree.ROOT_INDEX],
        fraction=root.dirichlet_fraction,
        alpha=root.dirichlet_alpha,
    )
    return tree.replace(children_prior=tree.children_prior.at[:, Tree.ROOT_INDEX].set(prior))


def make_output(
    rng_key: Array,
    root: Root,
    setup: SearchSetup,
    tree: Tree,
    action_weights: Array,
    acting_weights: Array | None = None,
) -> mctx.PolicyOutput:
    """Samples the action and builds the policy's output.

    Args:
      rng_key: consumed.
      root: the policy's options of the root, with the temperature.
      setup: the setup of the search.
      tree: the trees after the search.
      action_weights: `[B, A]`, the training target.
      acting_weights: `[B, A]`, from which the action is sampled, if not from the target.

    Returns:
      The policy's output; an `ActingOutput` if there are `acting_weights`.
    """
    sampled_from = action_weights if acting_weights is None else acting_weights
    action = roots.sample_action(rng_key, sampled_from, root.temperature)
    parts: dict[str, Any] = {
        "action": action,
        "action_weights": action_weights,
        "search_tree": tree,
    }
    if acting_weights is None:
        return setup.restore(mctx.PolicyOutput(**parts))
    return setup.restore(ActingOutput(**parts, acting_weights=acting_weights))
