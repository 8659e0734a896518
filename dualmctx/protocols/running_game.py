"""A game that is played move by move on the host."""

from typing import Any

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.types import Environment


class RunningGame:
    """The positions of a game from its start to the last move, which can be taken back.

    Attributes:
      env: the game.
      fen: the position in which the moves begin, as text; `None` for the start of the game.
      actions: the moves.
      states: the unbatched states, as NumPy arrays, from the first position to the last one.
    """

    def __init__(self, env: Environment, fen: str | None = None) -> None:
        """Begins a game; raises a UserError if the FEN is invalid."""
        self.env, self._step = env, jax.jit(env.step)
        self.begin(fen)

    def begin(self, fen: str | None = None) -> None:
        """Begins a new game; raises a UserError if the FEN is invalid, and then keeps the old."""
        opened = games.open_position(self.env, (), fen)
        self.fen = fen
        self.actions: list[int] = []
        self.states = [opened.state]
        self._start, self._first_player = opened.start, opened.first_player

    @property
    def state(self) -> Any:
        """The state after the last move."""
        return self.states[-1]

    @property
    def is_over(self) -> bool:
        """Whether the game is over."""
        return bool(self.state.terminated or self.state.truncated)

    @property
    def winner(self) -> int | None:
        """The side that has won, 0 for the side that begins; `None` before the end or if drawn."""
        rewards = np.asarray(self.state.rewards)
        if not self.is_over or not rewards.any():
            return None
        return int(rewards.argmax() != self._first_player)

    def side(self, index: int = -1) -> int:
        """Returns the side to move in a state: 0 for the side that begins, 1 for the other."""
        return int(self.states[index].current_player != self._first_player)

    def legal(self) -> list[int]:
        """Returns the legal actions; none if the game is over."""
        if self.is_over:
            return []
        return np.flatnonzero(np.asarray(self.state.legal_action_mask)).tolist()

    def name(self, action: int) -> str:
        """Returns the name of a move in the last position."""
        return games.format_action(self.env, self.state, action)

    def read(self, text: str) -> int:
        """Returns the action of a legal move.

        Raises:
          UserError: if the text is no move, or the move is illegal.
        """
        action = games.parse_move(self.env, text, self.state if games.is_chess(self.env) else None)
        if action not in self.legal():
            raise UserError(f"{text[:40]!r} is illegal in this position")
        return action

    def play(self, action: int) -> None:
        """Plays a legal move."""
        self.states.append(jax.device_get(self._step(self.state, action)))
        self.actions.append(action)

    def undo(self, number: int = 1) -> None:
        """Takes back the last moves, at least one; there are as many."""
        del self.actions[-number:], self.states[-number:]
