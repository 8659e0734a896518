"""Targets: what the network is to learn from moves that were played."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.training.selfplay import Trajectory


class TrainingBatch(NamedTuple):
    """Positions to learn from, `[..., ]` over any leading axes.

    Attributes:
      observation: `[...]` seen by the player to move.
      legal_action_mask: `[..., A]`.
      policy: `[..., A]` the search's weights; sum to 1.
      value: `[...]` what the game has brought from here on, for the player to move; the game's
        result once it has ended.
      rest: `[...]` in {-1, 0, 1}, the sign with which the rest of the game will count: 0 once it
        is over.
      is_truncated: `[...]` bool, whether the game was stopped without a result.
      is_random: `[...]` bool, whether the move was drawn without a look at the search.
      search_value: `[...]` what the search expected, for the player to move.
    """

    observation: chex.Array
    legal_action_mask: chex.Array
    policy: chex.Array
    value: chex.Array
    rest: chex.Array
    is_truncated: chex.Array
    is_random: chex.Array
    search_value: chex.Array

    @property
    def has_value(self) -> chex.Array:
        """`[...]` bool, whether the result is known and comes of moves that the search chose."""
        return (self.rest == 0) & ~self.is_truncated & ~self.is_random

    def value_target(self, search_value_weight: float = 0.0) -> tuple[chex.Array, chex.Array]:
        """Returns `[...]` what the value head is to say, and `[...]` bool, where that is known.

        Formula: (1 − m) z + m v of the game's result z and the search's value v. Where there is no
        result it is v, but for m = 0, where it is unknown.

        Args:
          search_value_weight: m, in [0, 1].
        """
        mixed = self.value + search_value_weight * (self.search_value - self.value)
        target = jnp.where(self.has_value, mixed, self.search_value)
        return target, self.has_value | (search_value_weight > 0)


def game_results(reward: chex.Array, discount: chex.Array) -> tuple[chex.Array, chex.Array]:
    """Computes what each position's game brought to the player who was to move there.

    Formula, backwards in time: z_t = r_t + γ_t z_{t+1} and ρ_t = γ_t ρ_{t+1}, where γ is -1 if the
    player to move changes, +1 if the same player moves again, and 0 at the end of a game. After
    the last step z = 0 and ρ = 1: there z is what is known so far, and ρ the sign of the rest.

    Args:
      reward: `[T, B]` of the mover.
      discount: `[T, B]`.

    Returns:
      `[T, B]` z and `[T, B]` ρ, which is 0 where the game is over.
    """

    def back(carry: tuple, step: tuple) -> tuple:
        result, rest = carry
        reward, discount = step
        result, rest = reward + discount * result, discount * rest
        return (result, rest), (result, rest)

    start = (jnp.zeros_like(reward[0]), jnp.ones_like(discount[0]))
    return jax.lax.scan(back, start, (reward, discount), reverse=True)[1]


def make_samples(steps: Trajectory) -> TrainingBatch:
    """Turns `[T, B]` moves of self-play into positions to learn from, on the same axes.

    The value target is the game's result, where it follows from moves that the search chose; a
    truncated game has none. The policy target is the search's weights, also where a random move was
    played.

    Source: Silver et al. 2017 (AlphaGo Zero), "Self-play training pipeline".
    """
    value, rest = game_results(steps.reward, steps.discount)
    # A stop goes back through the moves of its game as a reward does, whoever moved.
    stop = steps.is_truncated.astype(steps.discount.dtype)
    is_truncated = game_results(stop, jnp.abs(steps.discount))[0] > 0
    return TrainingBatch(
        observation=steps.observation,
        legal_action_mask=steps.legal_action_mask,
        policy=steps.action_weights,
        value=value,
        rest=rest,
        is_truncated=is_truncated,
        is_random=steps.is_random,
        search_value=steps.value,
    )


def propagate_outcome(samples: TrainingBatch, following: TrainingBatch) -> TrainingBatch:
    """Tells positions how their game went on; nothing changes where it is over.

    A game longer than the steps of an iteration is known in pieces. Were its first positions left
    without a value, long games would be missing from what the network learns of the opening.

    Args:
      samples: `[B, L]` older positions.
      following: `[B, 1]` the first position after them in the same game.
    """
    return samples._replace(
        value=samples.value + samples.rest * following.value,
        rest=samples.rest * following.rest,
        is_truncated=samples.is_truncated | ((samples.rest != 0) & following.is_truncated),
    )
