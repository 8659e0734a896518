"""Nim with one pile: a move takes 1 … max_take stones; the player who takes the last one wins.

The player to move loses if and only if the pile is a multiple of max_take + 1 (Bouton 1901).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games import adapter, boards, pictures
from games.records import numbers_from_one

_MAX_STONES = 1_000_000


class GameState(NamedTuple):
    """A position, int32 `[]` each: the colour to move, and the number of remaining stones."""

    color: jax.Array
    pile: jax.Array


@dataclasses.dataclass(frozen=True)
class Game:
    """The rules of Nim. Action a takes a + 1 stones.

    Attributes:
      max_take: the maximum number of stones per move, at least 1; may exceed the pile.
      pile: the initial number of stones, at least 1.
    """

    max_take: int = 3
    pile: int = 20

    def init(self) -> GameState:
        """Returns the full pile, colour 0 to move."""
        return GameState(color=jnp.int32(0), pile=jnp.int32(self.pile))

    def step(self, x: GameState, action: jax.Array) -> GameState:
        """Returns the position after taking `action` + 1 stones; action int32 `[]`."""
        return GameState(color=1 - x.color, pile=x.pile - action - 1)

    def observe(self, x: GameState, color: jax.Array) -> jax.Array:
        """Returns bool `[pile + 1]`, the number of remaining stones, one-hot, for both players."""
        del color
        return jnp.arange(self.pile + 1) == x.pile

    def legal_action_mask(self, x: GameState) -> jax.Array:
        """Returns bool `[max_take]`, true for moves that take at most the remaining stones."""
        return jnp.arange(self.max_take) < x.pile

    def is_terminal(self, x: GameState) -> jax.Array:
        """Returns bool `[]`, true if no stones remain."""
        return x.pile <= 0

    def rewards(self, x: GameState) -> jax.Array:
        """Returns float32 `[2]` by colour; the player who took the last stone has won."""
        return adapter.zero_sum_rewards(self.is_terminal(x), 1 - x.color)


@adapter.state_class
class State(adapter.State):
    """The fields of `pgx.State`, and the position `_x`, a `GameState`."""

    name = "nim"

    def picture(self) -> pictures.Picture:
        """Returns a picture of the stones, ten per row; the state must be unbatched."""
        pile = max(int(self._x.pile), 0)
        caption = f"{pictures.caption(self)}, pile {pile}"
        return pictures.Picture(caption, boards.split_rows(("x",) * pile or (".",), 10))


class Nim(adapter.RulesEnv):
    """The pgx environment: max_take actions, observations bool `[pile + 1]`.

    Args:
      max_take: the maximum number of stones per move, from 1 to 1,000,000.
      pile: the initial number of stones, from 1 to 1,000,000.

    Raises:
      ValueError: if a parameter is not an integer in its range.
    """

    state = State

    def __init__(self, *, max_take: int = 3, pile: int = 20) -> None:
        game = Game(
            max_take=adapter.check_whole(
                "max_take", max_take, 1, _MAX_STONES, "the maximum number of stones per move"
            ),
            pile=adapter.check_whole("pile", pile, 1, _MAX_STONES, "the initial number of stones"),
        )
        super().__init__(game)

    def move_names(self) -> list[str]:
        """Returns the numbers of stones taken."""
        return numbers_from_one(self.game.max_take)

    @property
    def num_codes(self) -> int:
        """The number of codes: the piles 0 … pile."""
        return self.game.pile + 1

    @property
    def max_plies(self) -> int:
        """The plies of the longest game: one stone per ply."""
        return self.game.pile

    def position_code(self, state: Any) -> jax.Array:
        """Returns the pile; the optimal moves do not depend on the player to move."""
        return state._x.pile
