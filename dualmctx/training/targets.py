"""Targets: the outcome of a game, propagated to the positions that led to it."""

import chex
import jax
import jax.numpy as jnp

from dualmctx.training.batch import TrainingBatch
from dualmctx.training.selfplay import Trajectory


def propagate_rewards(reward: chex.Array, discount: chex.Array) -> tuple[chex.Array, chex.Array]:
    """Sums the rewards of the rest of the game, from the view of the player at each position.

    Formula, backwards in time: z_t = r_t + γ_t z_{t+1} and ρ_t = γ_t ρ_{t+1}, where γ is -1 if the
    player to move changes, +1 if the same player moves again, and 0 at the end of a game. After the
    last step z = 0 and ρ = 1. z is therefore the sum of the rewards up to the last step, and ρ is
    the factor of all later rewards.

    Args:
      reward: `[T, B]` reward of the player who moved.
      discount: `[T, B]` discount γ.

    Returns:
      `[T, B]` z; and `[T, B]` ρ, 0 where the game ends within the T steps.
    """

    def step_back(carry: tuple, step: tuple) -> tuple:
        value, remaining_discount = carry
        reward, discount = step
        value, remaining_discount = reward + discount * value, discount * remaining_discount
        return (value, remaining_discount), (value, remaining_discount)

    start = (jnp.zeros_like(reward[0]), jnp.ones_like(discount[0]))
    return jax.lax.scan(step_back, start, (reward, discount), reverse=True)[1]


def make_training_batch(trajectory: Trajectory) -> TrainingBatch:
    """Converts `[T, B]` moves of self-play to positions to learn from, with the same axes.

    The value target is the result of the game, if no random move follows the position. Truncated
    games have no result. The policy target is the weights of the search, even where a random move
    was played.

    Source: Silver et al. 2017 (AlphaGo Zero), "Self-play training pipeline".
    """
    positions, discount = trajectory.positions, trajectory.discount
    value, remaining_discount = propagate_rewards(trajectory.reward, discount)
    # A truncation propagates like a reward, but with the same sign for both players.
    stop = trajectory.is_truncated.astype(discount.dtype)
    is_truncated = propagate_rewards(stop, jnp.abs(discount))[0] > 0
    return positions._replace(
        value=value, remaining_discount=remaining_discount, is_truncated=is_truncated
    )


def propagate_outcome(batch: TrainingBatch, following: TrainingBatch) -> TrainingBatch:
    """Propagates the outcome of games in progress to older positions.

    A game that is longer than an iteration arrives in pieces. Without this function the first
    positions of long games would have no value target. Positions of finished games do not change.

    Args:
      batch: `[B, L]` older positions.
      following: `[B, 1]` the next position of each game.
    """
    is_open = batch.remaining_discount != 0
    return batch._replace(
        value=batch.value + batch.remaining_discount * following.value,
        remaining_discount=batch.remaining_discount * following.remaining_discount,
        is_truncated=batch.is_truncated | (is_open & following.is_truncated),
    )
