"""The fields that self-play stores for each position, declared in one place.

`TrainingBatch` declares each field together with the function that computes it from a move of
self-play and with its behaviour under the symmetries of the board. Self-play, the replay buffer and
augmentation use this declaration, so adding a field takes one line. The loss reads fields by name.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import chex
import jax.numpy as jnp


class Move(NamedTuple):
    """One move in each of `[B]` games: the inputs from which stored fields are computed.

    Attributes:
      state: `[B]` game states before the move.
      output: the output of the search of these states.
      reward: `[B]` reward of the player who moved.
      discount: `[B]` -1, +1 or 0, see `dualmctx.types`.
      is_truncated: `[B]` bool, whether the game was stopped after the move without a result.
      is_random: `[B]` bool, whether the move was sampled uniformly, independent of the search.
      value: `[B]` value of the position by the search, from the view of the player to move.
    """

    state: Any
    output: Any
    reward: chex.Array
    discount: chex.Array
    is_truncated: chex.Array
    is_random: chex.Array
    value: chex.Array


class Stored(NamedTuple):
    """Declaration of a stored field.

    Attributes:
      compute: returns the field of a move, `[B, ...]`.
      symmetry: the permutation that a symmetry of the board applies to the field: the permutation
        of the flattened observation, that of the actions, or `None`.
    """

    compute: Callable[[Move], chex.Array]
    symmetry: Literal["observation", "action"] | None = None


class TrainingBatch(NamedTuple):
    """Positions to learn from, with any leading axes.

    Self-play fills `value`, `remaining_discount` and `is_truncated` from the move alone;
    `dualmctx.training.replay.make_training_batch` then propagates the outcome of the game to them.
    The order of the fields is part of the format of checkpoints.

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

    observation: Annotated[chex.Array, Stored(lambda move: move.state.observation, "observation")]
    legal_action_mask: Annotated[
        chex.Array, Stored(lambda move: move.state.legal_action_mask, "action")
    ]
    policy: Annotated[chex.Array, Stored(lambda move: move.output.action_weights, "action")]
    value: Annotated[chex.Array, Stored(lambda move: move.reward)]
    remaining_discount: Annotated[chex.Array, Stored(lambda move: move.discount)]
    is_truncated: Annotated[chex.Array, Stored(lambda move: move.is_truncated)]
    is_random: Annotated[chex.Array, Stored(lambda move: move.is_random)]
    search_value: Annotated[chex.Array, Stored(lambda move: move.value)]

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


def stored_fields(batch_type: type) -> dict[str, Stored]:
    """Returns the declarations of the fields of a batch type, by name and in order."""
    hints = get_type_hints(batch_type, include_extras=True)
    return {name: hints[name].__metadata__[0] for name in hints}


def record_move(move: Move) -> TrainingBatch:
    """Computes the stored fields, `[B, ...]` each, of a move."""
    fields = stored_fields(TrainingBatch)
    return TrainingBatch(**{name: field.compute(move) for name, field in fields.items()})
