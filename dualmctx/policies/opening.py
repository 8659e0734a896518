"""How every PUCT policy opens and closes a search: fixed trees, noise at the root, an output."""

from typing import Any, NamedTuple

import chex
import jax
import mctx

from dualmctx.policies import root as roots
from dualmctx.policies.finite import finite_refine_fn, finite_root
from dualmctx.policies.kept import insert_subtree
from dualmctx.policies.options import Puct, allocate_rows
from dualmctx.policies.top_actions import Inputs, RestoreFn, keep_top_actions
from dualmctx.search.allocate import allocate
from dualmctx.search.tree import Tree
from dualmctx.types import ActingOutput, EvaluateFn


class Opening(NamedTuple):
    """What a search starts from.

    Attributes:
      tree: trees that hold their roots, or kept ones.
      evaluate_fn: plays and evaluates, giving probabilities.
      refine_fn: evaluates by a later head, or a tuple of functions that do; `None` for none.
      first_slot: the slots from here on are empty.
      longest: the largest number of edges that a path can have.
      restore: turns an output over slots into one over actions.
    """

    tree: Tree
    evaluate_fn: EvaluateFn
    refine_fn: Any
    first_slot: int
    longest: int
    restore: RestoreFn


def open_search(
    puct: Puct,
    inputs: Inputs,
    *,
    num_new: int,
    reuse_capacity: int = 0,
    num_trees: int = 1,
    search_tree: Tree | None = None,
) -> Opening:
    """Allocates the trees, or takes up kept ones.

    Args:
      puct: the policy's options.
      inputs: what the policy was called with.
      num_new: nodes that the search may add.
      reuse_capacity: room for nodes of the last move's trees.
      num_trees: trees on the topology.
      search_tree: what `get_subtree` made of the last move's trees, or `None`.

    Returns:
      What the search starts from. The root's prior has no noise yet.
    """
    # The slots of a kept root may stand for other actions than those of `root`.
    invalid_in_game = inputs.invalid_actions
    inputs = inputs._replace(
        root=finite_root(inputs.root), refine_fn=jax.tree.map(finite_refine_fn, inputs.refine_fn)
    )
    inputs, restore = keep_top_actions(inputs, puct.max_children)
    root, recurrent_fn, refine_fn, invalid_actions = inputs
    prior = roots.legal_probabilities(roots.mask_logits(root.prior_logits, invalid_actions))
    tree = allocate(
        roots.root_evaluation(root, prior),
        root.embedding,
        num_nodes=1 + reuse_capacity + num_new,
        invalid_actions=roots.no_invalid_actions(root, invalid_actions),
        num_trees=num_trees,
        windowed=puct.window is not None,
        is_kept=reuse_capacity > 0,
        num_virtual=puct.virtual_loss * puct.leaves_per_step,
    )
    tree = allocate_rows(puct, tree)
    if search_tree is not None:
        tree = insert_subtree(tree, search_tree, invalid_in_game, reuse_capacity=reuse_capacity)
    evaluate_fn = roots.evaluate_probabilities(recurrent_fn)
    return Opening(
        tree, evaluate_fn, refine_fn, 1 + reuse_capacity, reuse_capacity + num_new, restore
    )


def add_root_noise(rng_key: chex.PRNGKey, tree: Tree, puct: Puct) -> Tree:
    """Mixes Dirichlet noise into the roots' priors; consumes the key."""
    prior = roots.add_dirichlet_noise(
        rng_key,
        tree.children_prior[:, Tree.ROOT_INDEX],
        fraction=puct.dirichlet_fraction,
        alpha=puct.dirichlet_alpha,
    )
    return tree.replace(children_prior=tree.children_prior.at[:, Tree.ROOT_INDEX].set(prior))


def close_search(
    rng_key: chex.PRNGKey,
    puct: Puct,
    opening: Opening,
    tree: Tree,
    action_weights: chex.Array,
    acting_weights: chex.Array | None = None,
) -> mctx.PolicyOutput:
    """Draws the action from `[B, A]` weights; consumes the key.

    Args:
      rng_key: consumed.
      puct: the policy's options.
      opening: what the search started from.
      tree: the trees after the search.
      action_weights: the target.
      acting_weights: what the action is drawn from, if that is something else.

    Returns:
      The policy's output; an `ActingOutput` if there are `acting_weights`.
    """
    drawn_from = action_weights if acting_weights is None else acting_weights
    action = roots.sample_action(rng_key, drawn_from, puct.temperature)
    parts = {"action": action, "action_weights": action_weights, "search_tree": tree}
    if acting_weights is None:
        return opening.restore(mctx.PolicyOutput(**parts))
    return opening.restore(ActingOutput(**parts, acting_weights=acting_weights))
