"""The position of one game after its moves, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dualmctx.errors import UserError
from games.chess_states import set_up
from games.fen import is_chess
from games.histories import replay, replay_checked
from games.notation import format_action
from games.opened_positions import describe_bad_move
from games.parsed_moves import Line, parse_lines

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


def open_position(env: pgx.Env, moves: Any = (), fen: str | None = None) -> GamePosition:
    """Plays the moves of one game.

    Args:
      env: any pgx environment.
      moves: the moves, as for `parse_moves`.
      fen: the FEN in which they begin; `None` for the initial position.

    Raises:
      UserError: if a move or the FEN cannot be read, or a move is illegal or comes after the end of
        the game.
    """
    line = Line(moves, fen)
    parsed = parse_lines(env, [line])
    if parsed.errors:
        raise UserError(parsed.errors[0])
    start, actions = parsed.starts[0], parsed.actions.tolist()
    # Both histories start from one state, because the first player differs from row to row.
    initial = replay(env, _NO_MOVES) if start is None else set_up(env, [start])
    starts = jax.tree.map(lambda x: np.repeat(x, 2, axis=0), jax.device_get(initial))
    histories = np.full((2, max(1, len(actions))), -1, np.int32)
    histories[0, : len(actions)] = actions
    histories[1, : max(0, len(actions) - 1)] = actions[:-1]
    states, first_bad = jax.device_get(replay_checked(env, histories, starts))
    state, before = (jax.tree.map(lambda x, i=i: x[i], states) for i in (0, 1))
    # In positions of a FEN, player 0 has the first side.
    first = int(starts.current_player[0]) if start is None else 0
    opened = GamePosition(state, before, start, actions, first)
    if first_bad[0] >= 0:
        bad = describe_bad_move(
            env, line, start, actions, int(first_bad[0]), is_over=opened.is_over
        )
        raise UserError(f"{bad}{_list_legal(env, opened)}")
    return opened


def name_action(env: pgx.Env, state: Any, action: int) -> str:
    """Returns the name of a move in a position, given its unbatched state."""
    return format_action(env, state if is_chess(env) else None, action)


def _list_legal(env: pgx.Env, opened: GamePosition) -> str:
    """Returns the legal moves of a position, for an error."""
    if opened.is_over:
        return ""
    legal = np.flatnonzero(opened.state.legal_action_mask).tolist()[:_MAX_LISTED]
    return f"; legal moves are {', '.join(name_action(env, opened.state, x) for x in legal)}"
