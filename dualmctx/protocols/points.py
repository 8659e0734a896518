"""Boards of points for front ends that draw the stones of a game that they do not know.

GoGui (gogui-rules_* commands) draws a square board with black and white stones, whose points have
the names of the Go Text Protocol: letters without I, and row 1 at the bottom. Points of Othello and
Hex have the names of their own notation, so their first row is the lowest one on that board.
"""

from collections.abc import Mapping
from typing import Any

import games
from dualmctx.errors import UserError
from dualmctx.protocols.gtp_text import COLUMNS, vertex
from dualmctx.protocols.running_game import RunningGame
from games.pictures import picture

_STONES = {"x": "X", "X": "X", "o": "O", "O": "O", ".": "."}
# Games in whose notation row 1 is at the top; without I, their columns have the same letters.
_FROM_TOP, _MAX_COLUMNS = ("othello", "hex"), COLUMNS.index("J")


def board(game: RunningGame) -> list[str]:
    """Returns the rows of the square board, the highest one first: X, O and . for no stone.

    Raises:
      UserError: if the position has no picture of stones only, or the board of a game with a
        notation of its own has more columns than both notations name alike.
    """
    rows = _rows(game.env, game.state)
    size = max(len(rows), *map(len, rows))
    filled = [row.ljust(size, ".") for row in rows]
    return ["." * size] * (size - len(rows)) + filled


def points(game: RunningGame) -> dict[str, int]:
    """Returns the legal actions by their points; other moves, such as pass, by their names.

    Raises:
      UserError: as `board`; or if a move is not the choice of one point.
    """
    height = len(_rows(game.env, game.state))
    entries = games.entries(game.env, game.state)
    if game.env.id in _FROM_TOP:
        return {_upper(x.name, x.shown): x.action for x in entries}
    found = {
        x.name if x.shown is None else vertex(height - 1 - x.shown[0], x.shown[1]): x.action
        for x in entries
    }
    if len(found) < len(entries) or any(entry.start is not None for entry in entries):
        raise UserError(f"the moves of {game.env.id} are not points of a board")
    return found


def _upper(name: str, shown: Any) -> str:
    return name if shown is None else name.upper()


def _rows(env: Any, state: Any) -> list[str]:
    """Returns the rows of the picture, the highest one first."""
    cells = [[x for x in row if x] for row in picture(state).rows]
    unknown = {x for row in cells for x in row} - _STONES.keys()
    is_own = env.id in _FROM_TOP
    largest = _MAX_COLUMNS if is_own else len(COLUMNS)
    if unknown or not cells or len({*map(len, cells)}) > 1 or len(cells[0]) > largest:
        raise UserError(f"{env.id} has no board of black and white stones with such columns")
    rows = ["".join(map(_stone, row)) for row in cells]
    return rows[::-1] if is_own else rows


def _stone(cell: str, names: Mapping[str, str] = _STONES) -> str:
    return names[cell]
