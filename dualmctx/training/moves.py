"""The decisions of self-play at one position: the move, the recorded value, resignation."""

from typing import Any

import chex
import jax.numpy as jnp

from dualmctx.policies.root import sample_action
from dualmctx.search.keys import split_key
from dualmctx.search.slots import latest_children, to_slots
from dualmctx.search.tree import Tree
from dualmctx.types import acting_weights


def choose_action(
    rng_keys: chex.PRNGKey,
    weights: chex.Array,
    legal_action_mask: chex.Array,
    temperature: chex.Array,
    is_random: chex.Array,
) -> chex.Array:
    """Samples the `[B]` moves of self-play.

    Args:
      rng_keys: `[B]` keys, which are consumed.
      weights: `[B, A]` action weights of the search.
      legal_action_mask: `[B, A]` bool.
      temperature: `[B]`; moves are sampled in proportion to weights^(1/temperature); 0 takes the
        action with the largest weight.
      is_random: `[B]` bool, whether to sample uniformly from the legal actions instead.
    """
    sample_keys, random_keys = split_key(rng_keys)
    action = sample_action(sample_keys, weights, temperature[:, None])
    random_action = sample_action(random_keys, legal_action_mask.astype(weights.dtype), 1.0)
    return jnp.where(is_random, random_action, action)


def chosen_value(output: Any) -> chex.Array:
    """Returns the value of each position, which self-play stores and compares with `resign_below`.

    The value is Q of the action with the largest acting weight; ties go to the lowest action. For
    Gumbel this action is the winner of Sequential Halving; for searches that choose by visits it is
    the most visited action. The mean at the root would also include simulations of actions that
    the search rejected.

    Args:
      output: the output of a search, over the actions of the game.

    Returns:
      `[B]` values, from the view of the player to move. With several trees, Q is that of the last
      tree that visited the action; if no tree did, the value is that of the root in the last tree.
    """
    tree = output.search_tree
    weights = to_slots(tree, acting_weights(output))
    chosen = jnp.argmax(weights, axis=-1, keepdims=True)
    visits, qvalues = (
        jnp.take_along_axis(rows, chosen, axis=-1)[:, 0] for rows in latest_children(tree)
    )
    return jnp.where(visits > 0, qvalues, tree.stats[-1].node_values[:, Tree.ROOT_INDEX])


def has_lost(state: Any, player: chex.Array) -> chex.Array:
    """Returns `[B]` bool, whether the given players lost their games.

    Args:
      state: `[B]` final game states.
      player: `[B]` identities of players; the result is undefined where it is negative.
    """
    player = jnp.maximum(player, 0)
    return jnp.take_along_axis(state.rewards, player[:, None], axis=1)[:, 0] < 0
