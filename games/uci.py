"""UCI notation of chess and Gardner's chess: two squares, and the piece of a promotion.

An action of pgx is a square and a direction from the view of the player to move. A promotion to a
queen is the same action as a plain step. The text of an action therefore depends on the colour and
on whether the moving piece is a pawn.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from dualmctx.errors import UserError
from games.positions import PAWN, Position, square_name


class Line(NamedTuple):
    """The context of a move: where the pawns are and which colour moves.

    Attributes:
      pawns: squares with pawns of either colour; may include pawns captured en passant.
      color: the colour to move, 0 White, 1 Black.
    """

    pawns: frozenset[int]
    color: int


class _Move(NamedTuple):
    """A move from White's view; `promoted` is one of "rbn", or "" for any other move."""

    start: int
    end: int
    promoted: str


class _Tables(NamedTuple):
    """The moves of one colour in a game.

    Attributes:
      size: number of squares along a side of the board.
      moves: the move of each action, None if it leads off the board.
      actions: the action of each text.
    """

    size: int
    moves: tuple[_Move | None, ...]
    actions: dict[str, int]


class _Arrays(NamedTuple):
    """The moves of both colours in a game, as `[2, A]` arrays.

    Attributes:
      texts: the text of each action, without the letter of a promotion to a queen.
      starts: the square from which the action moves a piece.
      may_promote: whether a pawn that makes the move becomes a queen.
    """

    texts: np.ndarray
    starts: np.ndarray
    may_promote: np.ndarray


def begin(position: Position) -> Line:
    """Returns the context of the first move from a position."""
    pawns = (square for square, piece in enumerate(position.board) if abs(piece) == PAWN)
    return Line(frozenset(pawns), position.color)


def read(game: str, line: Line, text: str) -> int:
    """Parses a move; its legality is not checked.

    Args:
      game: chess or gardner_chess.
      line: the context of the move.
      text: a move such as "e2e4" or "e7e8q".

    Returns:
      The action of pgx.

    Raises:
      ValueError: if there is no such move, a pawn's promotion lacks the piece, or another move
        names one.
    """
    tables = _tables(game, line.color)
    step, promotion = text[:4], text[4:]
    action = tables.actions.get(step if promotion == "q" else text)
    if action is None:
        raise UserError(f"not a move of {game}: write UCI, such as e2e4 or e7e8q")
    promotes = _promotes(tables, line, action)
    if promotes and not promotion:
        raise UserError(f"a pawn's promotion: write {step}q, {step}r, {step}b or {step}n")
    if promotion and not promotes:
        raise UserError(f"not a promotion: write {step}")
    return action


def show(game: str, line: Line, action: int) -> str:
    """Formats an action; the inverse of `read`.

    Raises:
      ValueError: if the action leads off the board.
    """
    tables = _tables(game, line.color)
    move = tables.moves[action]
    if move is None:
        raise UserError(f"not a move of {game}: it leads off the board")
    text = _text(move, tables.size)
    return text + "q" if _promotes(tables, line, action) and not move.promoted else text


def num_actions(game: str) -> int:
    """Returns A."""
    return len(_tables(game, 0).moves)


def show_batch(
    game: str, pawns: np.ndarray, colors: np.ndarray, rows: np.ndarray, actions: np.ndarray
) -> np.ndarray:
    """Formats M actions of S positions.

    Args:
      game: chess or gardner_chess.
      pawns: `[S, squares]` bool, whether a pawn of either colour is on a square.
      colors: `[S]` int, the colour to move.
      rows: `[M]` int, the index of the position of each action.
      actions: `[M]` int; none of them leads off the board.

    Returns:
      `[M]` texts, as those of `show`.
    """
    arrays, colors = _arrays(game), colors[rows]
    texts = arrays.texts[colors, actions]
    promotes = arrays.may_promote[colors, actions] & pawns[rows, arrays.starts[colors, actions]]
    texts[promotes] += "q"
    return texts


def play(game: str, line: Line, action: int) -> Line:
    """Returns the context after an action; one that leads off the board changes only the colour."""
    tables = _tables(game, line.color)
    move, pawns = tables.moves[action], line.pawns
    if move is not None and (move.start in pawns or move.end in pawns):
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

    def from_white(square: int) -> int:
        return square + color * (size - 1 - 2 * (square % size))

    def move(start: int, plane: int) -> _Move | None:
        end = int(ends[start, plane])
        promoted = "rbn"[plane // 3] if plane < 9 else ""  # three directions per piece
        return None if end < 0 else _Move(from_white(start), from_white(end), promoted)

    moves = tuple(move(*index) for index in np.ndindex(ends.shape))
    actions = {_text(move, size): action for action, move in enumerate(moves) if move is not None}
    return _Tables(size, moves, actions)


@functools.cache
def _arrays(game: str) -> _Arrays:
    colors = [_tables(game, color) for color in range(2)]
    size = colors[0].size
    moves = [[move or _Move(0, 0, "") for move in tables.moves] for tables in colors]
    last = (0, size - 1)
    return _Arrays(
        np.array([[_text(move, size) for move in row] for row in moves], object),
        np.array([[move.start for move in row] for row in moves]),
        np.array(
            [[move.end % size in last and not move.promoted for move in row] for row in moves]
        ),
    )


def _text(move: _Move, size: int) -> str:
    return square_name(move.start, size) + square_name(move.end, size) + move.promoted
