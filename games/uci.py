"""UCI moves of chess and Gardner's chess: two squares, and the piece that a pawn turns into.

An action of pgx is a square and a direction as the player to move sees the board, and a pawn that
becomes a queen is a plain step. So the text of an action depends on the colour, and on whether it
is a pawn that moves.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from games.positions import PAWN, Position, square_name


class Line(NamedTuple):
    """What a move's notation needs to know of the moves before it.

    Attributes:
      pawns: the squares with pawns, of either colour, and some that were captured in passing.
      color: who is to move, 0 White, 1 Black.
    """

    pawns: frozenset[int]
    color: int


class _Move(NamedTuple):
    """A move as White sees the board; `promoted` is one of "rbn", "" for all other moves."""

    start: int
    end: int
    promoted: str


class _Tables(NamedTuple):
    """The moves of a game and a colour: of each action, None off the board; and back, by text."""

    size: int
    moves: tuple[_Move | None, ...]
    actions: dict[str, int]


def begin(position: Position) -> Line:
    """Returns the line of no moves from a position."""
    pawns = (square for square, piece in enumerate(position.board) if abs(piece) == PAWN)
    return Line(frozenset(pawns), position.color)


def read(game: str, line: Line, text: str) -> int:
    """Returns the action of a move; whether it is legal is not asked.

    Args:
      game: chess or gardner_chess.
      line: the moves before.
      text: such as "e2e4" or "e7e8q".

    Returns:
      The action of pgx.

    Raises:
      ValueError: with a reason, if there is no such move, or a pawn's promotion is missing or
        another piece's is not.
    """
    tables = _tables(game, line.color)
    step, promotion = text[:4], text[4:]
    action = tables.actions.get(step if promotion == "q" else text)
    if action is None:
        raise ValueError(f"no move of {game}: write UCI, such as e2e4 or e7e8q")
    promotes = _promotes(tables, line, action)
    if promotes and not promotion:
        raise ValueError(f"a pawn's promotion: write {step}q, {step}r, {step}b or {step}n")
    if promotion and not promotes:
        raise ValueError(f"no promotion: write {step}")
    return action


def show(game: str, line: Line, action: int) -> str:
    """Returns the text of an action; see `read`.

    Raises:
      ValueError: with a reason, if the action leads off the board.
    """
    tables = _tables(game, line.color)
    move = tables.moves[action]
    if move is None:
        raise ValueError(f"no move of {game}: it leads off the board")
    text = _text(move, tables.size)
    return text + "q" if _promotes(tables, line, action) and not move.promoted else text


def play(game: str, line: Line, action: int) -> Line:
    """Returns the line with one move more; an action off the board only passes the turn."""
    tables = _tables(game, line.color)
    move, pawns = tables.moves[action], line.pawns
    if move is not None:
        stays_pawn = move.start in pawns and not _promotes(tables, line, action)
        pawns = pawns - {move.start, move.end} | ({move.end} if stays_pawn else set())
    return Line(pawns, 1 - line.color)


def _promotes(tables: _Tables, line: Line, action: int) -> bool:
    move = tables.moves[action]
    return (
        move is not None
        and move.start in line.pawns
        and move.end % tables.size in (0, tables.size - 1)
    )


@functools.cache
def _tables(game: str, color: int) -> _Tables:
    if game == "chess":
        from pgx._src.games.chess import FROM_PLANE as ENDS
    else:
        from pgx._src.gardner_chess_utils import TO_MAP as ENDS
    ends = np.asarray(ENDS)
    size = math.isqrt(len(ends))

    def seen(square: int) -> int:
        return square + color * (size - 1 - 2 * (square % size))

    def move(start: int, plane: int) -> _Move | None:
        end = int(ends[start, plane])
        promoted = "rbn"[plane // 3] if plane < 9 else ""  # three directions each
        return None if end < 0 else _Move(seen(start), seen(end), promoted)

    moves = tuple(move(*index) for index in np.ndindex(ends.shape))
    actions = {_text(move, size): action for action, move in enumerate(moves) if move is not None}
    return _Tables(size, moves, actions)


def _text(move: _Move, size: int) -> str:
    return square_name(move.start, size) + square_name(move.end, size) + move.promoted
