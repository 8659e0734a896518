"""Connect2: four cells in a row; two adjacent stones of the same player win.

Source: J. Varty, "A step-by-step look at AlphaZero and Monte Carlo Tree Search", a tutorial that
shows the complete game tree (53 histories).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import adapter, boards, pictures
from games.records import numbers_from_one, ternary_code
from games.symmetry import Symmetries

CELLS = 4


class GameState(NamedTuple):
    """A position: the colour to move, int32 `[]`, and the cells, int32 `[4]`, -1 if empty."""

    color: jax.Array
    board: jax.Array


@dataclasses.dataclass(frozen=True)
class Game:
    """The rules of Connect2. Action a places a stone in cell a."""

    def init(self) -> GameState:
        """Returns the empty board, colour 0 to move."""
        return GameState(color=jnp.int32(0), board=jnp.full(CELLS, -1, jnp.int32))

    def step(self, x: GameState, action: jax.Array) -> GameState:
        """Returns the position after a stone in cell `action`, int32 `[]`."""
        return GameState(color=1 - x.color, board=x.board.at[action].set(x.color))

    def observe(self, x: GameState, color: jax.Array) -> jax.Array:
        """Returns bool `[8]`: the four cells with `color`'s stones, then the opponent's."""
        return jnp.concatenate([x.board == color, x.board == 1 - color])

    def legal_action_mask(self, x: GameState) -> jax.Array:
        """Returns bool `[4]`, the empty cells."""
        return x.board < 0

    def is_terminal(self, x: GameState) -> jax.Array:
        """Returns bool `[]`, true if a player has won or the board is full."""
        return _has_pair(x, 1 - x.color) | (x.board >= 0).all()

    def rewards(self, x: GameState) -> jax.Array:
        """Returns float32 `[2]` by colour; only the last player to move can have won."""
        return adapter.zero_sum_rewards(_has_pair(x, 1 - x.color), 1 - x.color)


def _has_pair(x: GameState, color: jax.Array) -> jax.Array:
    own = x.board == color
    return (own[:-1] & own[1:]).any()


@adapter.state_class
class State(adapter.State):
    """The fields of `pgx.State`, and the position `_x`, a `GameState`."""

    name = "connect2"

    def picture(self) -> pictures.Picture:
        """Returns a picture of the four cells; the state must be unbatched."""
        return pictures.Picture(pictures.caption(self), (boards.stone_cells(self._x.board),))


class Connect2(adapter.RulesEnv):
    """The pgx environment: 4 actions, observations bool `[8]` from the view of the mover.

    Attributes:
      joined_moves: true, because cells are single digits.
    """

    state = State
    joined_moves = True  # cells are single digits
    num_codes = 3**CELLS

    def __init__(self) -> None:
        super().__init__(Game())

    def move_names(self) -> list[str]:
        """Returns the cells, from 1."""
        return numbers_from_one(CELLS)

    def symmetries(self) -> Symmetries:
        """Returns the identity and the mirror image."""
        cells = np.arange(2 * CELLS).reshape(2, CELLS)
        pairs = cells, cells[:, ::-1]
        return Symmetries(np.stack([x.ravel() for x in pairs]), np.stack([x[0] for x in pairs]))

    def position_code(self, state: Any) -> jax.Array:
        """Returns the number of the board, which has three values per cell."""
        return ternary_code(state._x.board)
