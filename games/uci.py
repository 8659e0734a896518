"""UCI notation of chess and Gardner's chess: two squares, and the piece of a promotion.

An action of pgx is a square and a direction from the view of the player to move. A promotion to a
queen is the same action as a plain step. The text of an action therefore depends on the colour and
on whether the moving piece is a pawn.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

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


class _Tables(NamedTuple):
    """The moves of both colours in a game; the arrays are `[2, A]`.

    The texts have no letter of a promotion to a queen, and are "" if the action leads off the
    board. `may_promote` tells whether a pawn that makes the move becomes a queen. `actions` has for
    each colour the action of each text.
    """

    size: int
    texts: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    may_promote: np.ndarray
    actions: tuple[dict[str, int], dict[str, int]]


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
    step, promotion = text[:4], text[4:]
    action = _tables(game).actions[line.color].get(step if promotion == "q" else text)
    if action is None:
        raise UserError(f"not a move of {game}: write UCI, such as e2e4 or e7e8q")
    promotes = _promotes(game, line, action)
    if promotes and not promotion:
        raise UserError(f"a pawn's promotion: write {step}q, {step}r, {step}b or {step}n")
    if promotion and not promotes:
        raise UserError(f"not a promotion: write {step}")
    return action


def show(game: str, line: Line, action: int) -> str:
    """Formats an action, which must not lead off the board; the inverse of `read`."""
    text = _tables(game).texts[line.color, action]
    if not text:
        raise UserError(f"not a move of {game}: it leads off the board")
    return text + "q" if len(text) == 4 and _promotes(game, line, action) else text


def num_actions(game: str) -> int:
    """Returns A."""
    return _tables(game).texts.shape[1]


def check_action(action: Any, number: int) -> int:
    """Checks the number of one of `number` actions and returns it as a Python int."""
    is_integer = isinstance(action, int | np.integer) and not isinstance(action, bool)
    if not is_integer or not 0 <= action < number:
        raise UserError(f"not an action: pass text, or a number from 0 to {number - 1}")
    return int(action)


def show_batch(
    game: str, pawns: np.ndarray, colors: np.ndarray, rows: np.ndarray, actions: np.ndarray
) -> np.ndarray:
    """Formats M actions, none of which leads off the board, of S positions.

    Args:
      game: chess or gardner_chess.
      pawns: `[S, squares]` bool, whether a pawn of either colour is on a square.
      colors: `[S]` int, the colour to move.
      rows: `[M]` int, the index of the position of each action.
      actions: `[M]` int.

    Returns:
      `[M]` texts, as those of `show`.
    """
    tables, colors = _tables(game), colors[rows]
    texts = tables.texts[colors, actions]
    promotes = tables.may_promote[colors, actions] & pawns[rows, tables.starts[colors, actions]]
    texts[promotes] += "q"
    return texts


def play(game: str, line: Line, action: int) -> Line:
    """Returns the context after an action; one that leads off the board changes only the colour."""
    tables, pawns = _tables(game), line.pawns
    start, end = (int(x[line.color, action]) for x in (tables.starts, tables.ends))
    if tables.texts[line.color, action] and (start in pawns or end in pawns):
        stays_pawn = start in pawns and not _promotes(game, line, action)
        pawns = pawns - {start, end} | ({end} if stays_pawn else set())
    return Line(pawns, 1 - line.color)


def _promotes(game: str, line: Line, action: int) -> bool:
    """Returns whether a pawn makes the move and reaches the last rank."""
    tables = _tables(game)
    is_last = tables.ends[line.color, action] % tables.size in (0, tables.size - 1)
    return bool(is_last) and int(tables.starts[line.color, action]) in line.pawns


@functools.cache
def _tables(game: str) -> _Tables:
    if game == "chess":
        from pgx._src.games.chess import FROM_PLANE as ENDS
    else:
        from pgx._src.gardner_chess_utils import TO_MAP as ENDS
    ends = np.asarray(ENDS)
    size, is_move = math.isqrt(len(ends)), (ends >= 0).ravel()
    starts = np.repeat(np.arange(len(ends)), ends.shape[1])
    # The first nine planes are promotions, in three directions for each piece.
    pieces = ["rbn"[x // 3] if x < 9 else "" for x in range(ends.shape[1])] * len(ends)
    # On Black's turn pgx counts the ranks from the other side.
    squares = [np.where(is_move, np.array([starts, ends.ravel()]), 0)] * 2
    squares[1] = squares[1] + size - 1 - 2 * (squares[1] % size)
    texts = [
        [
            square_name(start, size) + square_name(end, size) + piece if is_on_board else ""
            for start, end, piece, is_on_board in zip(*both.tolist(), pieces, is_move, strict=True)
        ]
        for both in squares
    ]
    starts, ends = np.stack(squares, axis=1)
    is_last = np.isin(ends % size, (0, size - 1))
    first, second = ({x: action for action, x in enumerate(row) if x} for row in texts)
    may_promote = is_last & ~np.array(pieces, bool)
    return _Tables(size, np.array(texts, object), starts, ends, may_promote, (first, second))
