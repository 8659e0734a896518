"""The position of one game after its moves, on the host."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dualmctx.errors import UserError
from games.chess_states import set_up
from games.fen import is_chess
from games.histories import replay, replay_checked
from games.notation import format_action, format_moves

if TYPE_CHECKING:
    import pgx

# An error lists at most this number of legal moves.
_MAX_LISTED = 40
_NO_MOVES = np.full((1, 1), -1, np.int32)


class GamePosition(NamedTuple):
    """The position of a game after its moves.

    Attributes:
      state: the unbatched state, as NumPy arrays.
      before: the state before the last move; equal to `state` without moves.
      start: the position in which the moves start, as in `parse_moves`.
      actions: the moves.
      first_player: the player who has the first side.
    """

    state: Any
    before: Any
    start: Any
    actions: list[int]
    first_player: int

    @property
    def is_over(self) -> bool:
        """Whether the game is over."""
        return bool(self.state.terminated or self.state.truncated)

    @property
    def side(self) -> int:
        """The side to move: 0 for the side that begins the game, 1 for the other."""
        return int(self.state.current_player != self.first_player)


def open_position(
    env: pgx.Env, start: Any, actions: Sequence[int], texts: Sequence[Any] | None = None
) -> GamePosition:
    """Replays the moves of one game.

    Args:
      env: any pgx environment.
      start: the position in which the moves start, as in `parse_moves`.
      actions: the moves.
      texts: the moves as the user wrote them, for an error; by default in the game's notation.

    Raises:
      ValueError: if a move is illegal or comes after the end of the game.
    """
    # Both histories start from one state, because the first player differs from row to row.
    initial = replay(env, _NO_MOVES) if start is None else set_up(env, [start])
    starts = jax.tree.map(lambda x: np.repeat(x, 2, axis=0), jax.device_get(initial))
    histories = np.full((2, max(1, len(actions))), -1, np.int32)
    histories[0, : len(actions)] = actions
    histories[1, : max(0, len(actions) - 1)] = actions[:-1]
    states, first_bad = jax.device_get(replay_checked(env, histories, starts))
    state, before = (jax.tree.map(lambda x, i=i: x[i], states) for i in (0, 1))
    bad = int(first_bad[0])
    if bad >= 0:
        # Texts may include the numbers of moves.
        if texts is None or len(texts) != len(actions):
            texts = format_moves(env, start, actions[: bad + 1])
        text = texts[bad]
        move = f"move {bad + 1}, {reprlib.repr(text)},"
        raise UserError(f"{move} {_describe_problem(env, state)}")
    # In positions of a FEN, player 0 has the first side.
    first = int(starts.current_player[0]) if start is None else 0
    return GamePosition(state, before, start, list(actions), first)


def name_action(env: pgx.Env, state: Any, action: int) -> str:
    """Returns the name of a move in a position, given its unbatched state."""
    return format_action(env, state if is_chess(env) else None, action)


def _describe_problem(env: pgx.Env, state: Any) -> str:
    """Describes why a move cannot be played in a position."""
    if state.terminated or state.truncated:
        return "comes after the end of the game"
    legal = np.flatnonzero(state.legal_action_mask).tolist()[:_MAX_LISTED]
    return f"is illegal; legal moves are {', '.join(name_action(env, state, x) for x in legal)}"
