"""Reads the results of a search from its trees, by action of the game."""

from typing import NamedTuple

import chex
import jax.numpy as jnp

from dualmctx.search.slots import latest_children, to_actions
from dualmctx.search.tree import Tree, get_children


class Decision(NamedTuple):
    """The decision in `[B]` positions; fields as in `Evaluations`."""

    action: chex.Array
    action_weights: chex.Array
    value: chex.Array
    visits: chex.Array
    qvalues: chex.Array
    principal_variation: chex.Array
    tree_values: chex.Array
    is_finite: chex.Array


def read_root(tree: Tree, num_actions: int) -> tuple[chex.Array, chex.Array]:
    """Reads visits and Q-values of the actions of the root.

    Args:
      tree: trees after a search, over all actions or over slots (`policies.top_actions`).
      num_actions: A, the number of actions of the game.

    Returns:
      `[B, A]` visits in the last tree, 0 for actions without a slot; and `[B, A]` Q-values in the
      last tree that visited the action, from the view of the player to move, NaN if no tree did.
    """
    visits = get_children(tree, Tree.ROOT_INDEX, len(tree.stats) - 1).visits
    latest = latest_children(tree)
    qvalues = jnp.where(latest.visits > 0, latest.qvalues, jnp.nan)
    return to_actions(tree, visits, num_actions), to_actions(tree, qvalues, num_actions, jnp.nan)
