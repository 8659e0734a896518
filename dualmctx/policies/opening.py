"""How every PUCT policy opens and closes a search: fixed trees, noise at the root, an output."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import chex
import jax.numpy as jnp
import mctx

from dualmctx.keys import split_key
from dualmctx.policies import root as roots
from dualmctx.policies import weights
from dualmctx.policies.checks import OneTree
from dualmctx.policies.children import Inputs, RestoreFn, limit_children
from dualmctx.policies.kept import graft
from dualmctx.policies.options import Puct, allocate_rows, make_grow, make_qvalues
from dualmctx.search import Grow, search
from dualmctx.select import completed_qvalues
from dualmctx.tree import Tree, allocate, get_children
from dualmctx.types import ActingOutput, EvaluateFn, Params


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
    kept_nodes: int = 0,
    num_layers: int = 1,
    search_tree: Tree | None = None,
) -> Opening:
    """Allocates the trees, or takes up kept ones.

    Args:
      puct: the policy's options.
      inputs: what the policy was called with.
      num_new: nodes that the search may add.
      kept_nodes: room for nodes of the last move's trees.
      num_layers: trees on the topology.
      search_tree: what `advance` made of the last move's trees, or `None`.

    Returns:
      What the search starts from. The root's prior has no noise yet.
    """
    # The slots of a kept root may stand for other actions than those of `root`.
    invalid_in_game = inputs.invalid_actions
    inputs, restore = limit_children(inputs, puct.max_children)
    root, recurrent_fn, refine_fn, invalid_actions = inputs
    prior = roots.legal_probabilities(roots.mask_logits(root.prior_logits, invalid_actions))
    tree = allocate(
        roots.root_evaluation(root, prior),
        root.embedding,
        num_nodes=1 + kept_nodes + num_new,
        invalid_actions=roots.no_invalid_actions(root, invalid_actions),
        num_layers=num_layers,
        windowed=puct.window is not None,
        is_kept=kept_nodes > 0,
        num_virtual=puct.virtual_loss * puct.leaves_per_step,
    )
    tree = allocate_rows(puct, tree)
    if search_tree is not None:
        tree = graft(tree, search_tree, invalid_in_game, kept_nodes=kept_nodes)
    evaluate_fn = roots.evaluate_probabilities(recurrent_fn)
    return Opening(tree, evaluate_fn, refine_fn, 1 + kept_nodes, kept_nodes + num_new, restore)


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


def close_one_tree(
    rng_key: chex.PRNGKey, puct: Puct, opening: Opening, tree: Tree
) -> mctx.PolicyOutput:
    """Acts by the visits of a search with one tree, and learns them; consumes the key.

    The regularised policy takes their place where `Puct.regularized` says so: that of the root's
    prior without noise, with Q as the search saw it and the root's own value for untried actions.

    Source: Grill et al. 2020, section 4, "Act" and "Learn".
    """
    visits = tree.summary().visit_probs
    if not {"act", "learn"} & set(puct.regularized):
        return close_search(rng_key, puct, opening, tree, visits)
    root = jnp.zeros(visits.shape[0], jnp.int32)
    policy = weights.regularized_policy(
        opening.tree.children_prior[:, Tree.ROOT_INDEX],
        make_qvalues(puct, completed_qvalues)(tree, root, 0),
        jnp.sum(get_children(tree, root).visits, axis=-1),
        c_puct=puct.c_puct,
    )
    act, learn = (policy if x in puct.regularized else visits for x in ("act", "learn"))
    return close_search(rng_key, puct, opening, tree, learn, None if act is learn else act)


class OneTreeOptions(OneTree, Protocol):
    """The options that the PUCT policies of one tree have in common; see `AlphaZero` for each."""

    @property
    def puct(self) -> Puct:
        """How the tree is searched."""
        ...


ChangeFn = Callable[[Tree, Grow], tuple[Tree, Grow]]


def search_one_tree(
    options: OneTreeOptions,
    params: Params,
    rng_key: chex.PRNGKey,
    inputs: Inputs,
    *,
    search_tree: Tree | None = None,
    change_fn: ChangeFn | None = None,
) -> mctx.PolicyOutput:
    """Searches one tree from a batch of roots by PUCT: AlphaZero's search.

    Args:
      options: of the policy.
      params: passed on to the evaluations.
      rng_key: consumed.
      inputs: what the policy was called with.
      search_tree: what `advance` made of the last move's tree, or `None`.
      change_fn: what the variant makes of the tree before its first simulation and of how it grows;
        `None` for nothing.

    Returns:
      The policy's output.
    """
    puct, budget = options.puct, options.num_simulations
    noise_key, search_key, action_key = split_key(rng_key, 3)
    opening = open_search(
        puct, inputs, num_new=budget, kept_nodes=options.kept_nodes, search_tree=search_tree
    )
    tree = add_root_noise(noise_key, opening.tree, puct)
    grow = make_grow(puct, opening.evaluate_fn, num_simulations=opening.longest)
    if change_fn is not None:
        tree, grow = change_fn(tree, grow)
    tree = search(params, search_key, tree, grow, budget, first_slot=opening.first_slot)
    return close_one_tree(action_key, puct, opening, tree)
