"""Targets: what the network is to learn from moves that were played."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.selfplay import Steps


class Samples(NamedTuple):
    """Positions to learn from, `[..., ]` over any leading axes.

    Attributes:
      observation: `[...]` seen by the player to move.
      legal_action_mask: `[..., A]`.
      policy: `[..., A]` the search's weights; sum to 1.
      value: `[...]` the game's result, for the player to move.
      has_value: `[...]` bool, whether that result is known.
    """

    observation: chex.Array
    legal_action_mask: chex.Array
    policy: chex.Array
    value: chex.Array
    has_value: chex.Array


def game_results(
    reward: chex.Array, discount: chex.Array, is_end: chex.Array
) -> tuple[chex.Array, chex.Array]:
    """Computes what each position's game brought to the player who was to move there.

    Formula, backwards in time: z_t = r_t + γ_t z_{t+1}, where γ is -1 if the player to move
    changes, +1 if the same player moves again, and 0 at the end of a game.

    Args:
      reward: `[T, B]` of the mover.
      discount: `[T, B]`.
      is_end: `[T, B]` bool.

    Returns:
      `[T, B]` results, and `[T, B]` bool, false where the game went on after the last step, so
      that its result is not known.
    """

    def back(carry: tuple, step: tuple) -> tuple:
        result, is_known = carry
        reward, discount, is_end = step
        result = reward + discount * result
        is_known = is_known | is_end
        return (result, is_known), (result, is_known)

    start = (jnp.zeros_like(reward[0]), jnp.zeros_like(is_end[0]))
    return jax.lax.scan(back, start, (reward, discount, is_end), reverse=True)[1]


def make_samples(steps: Steps) -> Samples:
    """Turns `[T, B]` moves of self-play into positions to learn from, on the same axes.

    The value target is the game's result, where it is known and follows from moves that the
    search chose. The policy target is the search's weights, also where a random move was played.

    Source: Silver et al. 2017 (AlphaGo Zero), "Self-play training pipeline".
    """
    result, is_known = game_results(steps.reward, steps.discount, steps.is_end)
    return Samples(
        observation=steps.observation,
        legal_action_mask=steps.legal_action_mask,
        policy=steps.action_weights,
        value=result,
        has_value=is_known & ~steps.is_random,
    )
