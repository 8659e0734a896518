"""AlphaZero's search of one tree by PUCT, which the policies of one tree share."""

from collections.abc import Callable
from typing import Protocol

import chex
import jax.numpy as jnp
import mctx

from dualmctx.checks import OneTree
from dualmctx.policies import weights
from dualmctx.policies.opening import Opening, add_root_noise, close_search, open_search
from dualmctx.policies.options import Puct, make_grow, make_qvalues
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.keys import split_key
from dualmctx.search.select import completed_qvalues
from dualmctx.search.simulate import SearchSpec, search
from dualmctx.search.tree import Tree, get_children
from dualmctx.types import Params


def close_one_tree(
    rng_key: chex.PRNGKey, puct: Puct, opening: Opening, tree: Tree
) -> mctx.PolicyOutput:
    """Acts by the visits of a search with one tree, and learns them; consumes the key.

    `Puct.visit_weights` may smooth them. The regularised policy takes their place where
    `Puct.regularized` says so: that of the root's prior without noise, with Q as the search saw it
    and the root's own value for untried actions.

    Source: Kadam, Xu, Lieberherr 2021, eq. 2, for the smoothed visits; Grill et al. 2020, section
    4, "Act" and "Learn", for the regularised policy.
    """
    clean_prior = opening.tree.children_prior[:, Tree.ROOT_INDEX]
    root = jnp.zeros(clean_prior.shape[0], jnp.int32)
    counts = get_children(tree, root).visits
    visits = tree.summary().visit_probs
    if puct.visit_weights == "smoothed":
        visits = weights.smoothed_visits(counts, clean_prior > 0)
    if not {"act", "learn"} & set(puct.regularized):
        return close_search(rng_key, puct, opening, tree, visits)
    policy = weights.regularized_policy(
        clean_prior,
        make_qvalues(puct, completed_qvalues)(tree, root, 0),
        jnp.sum(counts, axis=-1),
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


ChangeFn = Callable[[Tree, SearchSpec], tuple[Tree, SearchSpec]]


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
      search_tree: what `get_subtree` made of the last move's tree, or `None`.
      change_fn: what the variant makes of the tree before its first simulation and of how it grows;
        `None` for nothing.

    Returns:
      The policy's output.
    """
    puct, budget = options.puct, options.num_simulations
    noise_key, search_key, action_key = split_key(rng_key, 3)
    opening = open_search(
        puct, inputs, num_new=budget, reuse_capacity=options.reuse_capacity, search_tree=search_tree
    )
    tree = add_root_noise(noise_key, opening.tree, puct)
    spec = make_grow(puct, opening.evaluate_fn, num_simulations=opening.longest)
    if change_fn is not None:
        tree, spec = change_fn(tree, spec)
    tree = search(params, search_key, tree, spec, budget, first_slot=opening.first_slot)
    return close_one_tree(action_key, puct, opening, tree)
