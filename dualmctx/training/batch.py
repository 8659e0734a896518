"""Positions to learn from: those of self-play, or given ones, such as those of a data set."""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.errors import UserError

PERMUTED = {"observation": "observation", "legal_action_mask": "action", "policy": "action"}
"""The fields that a symmetry of the board permutes, each with its permutation: that of the
flattened observation, or that of the actions."""


class TrainingBatch(NamedTuple):
    """Positions to learn from, with any leading axes.

    Self-play fills `value`, `remaining_discount` and `is_truncated` from the move alone;
    `dualmctx.training.replay.make_training_batch` then propagates the outcome of the game to them.
    A new field is stored in the replay buffer as the others are. It needs a value in `selfplay` and
    in `dualmctx.datasets.loading`. If it has an entry for each action, it also needs a place in
    `PERMUTED`.

    Attributes:
      observation: `[...]` from the view of the player to move.
      legal_action_mask: `[..., A]` bool.
      policy: `[..., A]` action weights of the search, which sum to 1.
      value: `[...]` sum of the rewards from this position on, from the view of the player to move;
        the result of the game once it has ended.
      remaining_discount: `[...]` in {-1, 0, 1}, the factor of later rewards in `value`; 0 once the
        game is over.
      is_truncated: `[...]` bool, whether the game was stopped without a result.
      is_random: `[...]` bool, whether the move was sampled uniformly, independent of the search.
      search_value: `[...]` value of the position by the search, from the view of the player to
        move.
    """

    observation: chex.Array
    legal_action_mask: chex.Array
    policy: chex.Array
    value: chex.Array
    remaining_discount: chex.Array
    is_truncated: chex.Array
    is_random: chex.Array
    search_value: chex.Array

    @property
    def has_value(self) -> chex.Array:
        """`[...]` bool, whether the result is known and the move was chosen by the search."""
        return (self.remaining_discount == 0) & ~self.is_truncated & ~self.is_random

    def value_target(self, search_value_weight: float = 0.0) -> tuple[chex.Array, chex.Array]:
        """Returns the `[...]` target of the value head, and `[...]` bool, whether it is known.

        Formula: (1 − m) z + m v, where z is the result of the game and v the value by the search.
        Without a result the target is v, or unknown if m = 0.

        Args:
          search_value_weight: m, in [0, 1].
        """
        mixed = self.value + search_value_weight * (self.search_value - self.value)
        target = jnp.where(self.has_value, mixed, self.search_value)
        return target, self.has_value | (search_value_weight > 0)


GIVEN_AHEAD = 2
"""The iterations whose given positions wait in memory, so that learning does not wait for them."""
PositionsFn = Callable[[int], TrainingBatch]
"""`(iteration) -> positions`: the `[num_games * num_steps]` positions that an iteration stores in
place of those of self-play, such as positions of a data set; iterations count from 0."""


def as_rows(
    positions: TrainingBatch, size: tuple[int, int], experience: TrainingBatch
) -> TrainingBatch:
    """Lays out given positions as the `[B, T]` rows of a replay buffer, with its dtypes.

    Position b T + t of an iteration is the t-th of row b.

    Raises:
      ValueError: if there are not B T positions.
    """
    number = len(positions.value)
    if number != size[0] * size[1]:
        raise UserError(
            f"positions gave {number} positions; it must give {size[0] * size[1]}, "
            "num_games * num_steps"
        )
    # A row of the buffer continues a game, but these positions do not follow each other.
    positions = positions._replace(
        is_truncated=~positions.has_value,
        remaining_discount=jnp.zeros_like(positions.remaining_discount),
    )
    return jax.tree.map(
        lambda x, kept: jnp.asarray(x, kept.dtype).reshape(*size, *x.shape[1:]),
        positions,
        experience,
    )
