"""Pictures of states: a caption and a grid of cells.

States of this package have a method `picture()`. A table at the end covers pgx's board games.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Picture:
    """The picture of one state.

    Attributes:
      caption: one line with the game and the player to move.
      rows: cells from top to bottom: "x" and "o" for the stones of the first and the second
        player, "." for an empty cell, "" for no cell; any other text is shown unchanged.
    """

    caption: str
    rows: tuple[tuple[str, ...], ...]


def picture(state: Any) -> Picture:
    """Returns the picture of one unbatched state.

    Raises:
      ValueError: if the state has no method `picture()` and its game is not in the table.
    """
    if hasattr(state, "picture"):
        return state.picture()
    env_id = str(getattr(state, "env_id", type(state).__name__))
    cells = _PGX_CELLS.get("go" if env_id.startswith("go_") else env_id)
    if cells is None:
        raise ValueError(
            f"no drawing for states of {env_id!r}: give the state a method picture() that "
            f"returns games.Picture; the built-in games are {', '.join(_PGX_CELLS)}."
        )
    return Picture(caption(state), cells(state))


def caption(state: Any) -> str:
    """Returns the game and the player to move or the winner, identified as in pgx."""
    if not (state.terminated or state.truncated):
        return f"{state.env_id}: player {int(state.current_player)} to move"
    rewards = np.asarray(state.rewards)
    # pgx clears the rewards if `step` is called again on a finished game.
    result = f"player {rewards.argmax()} won" if rewards.any() else "no winner on record"
    return f"{state.env_id}: over, {result}"


def stone_cells(board: Any) -> tuple[str, ...]:
    """Converts an int array to cells: 0 to "x", 1 to "o", -1 to "."."""
    return tuple("xo."[int(owner)] for owner in np.asarray(board))


def split_rows(cells: Sequence[str], width: int) -> tuple[tuple[str, ...], ...]:
    """Splits cells into rows of `width` cells; the last row may be shorter."""
    return tuple(tuple(cells[i : i + width]) for i in range(0, len(cells), width))


def _absolute(width: int) -> Any:
    return lambda state: split_rows(stone_cells(state._x.board), width)


def _relative(board: Any, color: Any) -> tuple[str, ...]:
    """Converts a board on which the stones of the player to move, `color`, are positive."""
    owner = np.where(np.asarray(board) > 0, int(color), 1 - int(color))
    return stone_cells(np.where(np.asarray(board) == 0, -1, owner))


def _othello(state: Any) -> tuple[tuple[str, ...], ...]:
    return split_rows(_relative(state._x.board, state._x.turn), 8)


def _hex(state: Any) -> tuple[tuple[str, ...], ...]:
    cells = _relative(state._x.board, state._x.color)
    rows = split_rows(cells, math.isqrt(len(cells)))
    # Each row is shifted by half a cell; the grid can only shift by whole cells.
    return tuple(("",) * (y // 2) + row for y, row in enumerate(rows))


def _go(state: Any) -> tuple[tuple[str, ...], ...]:
    cells = _relative(state._x.board, 0)
    return split_rows(cells, math.isqrt(len(cells)))


def _ranks(fen: str) -> Iterable[tuple[str, ...]]:
    for rank in fen.split(" ")[0].split("/"):
        yield tuple("".join("." * int(c) if c.isdigit() else c for c in rank))


def _chess(state: Any) -> tuple[tuple[str, ...], ...]:
    from pgx.experimental.chess import to_fen

    return tuple(_ranks(to_fen(state)))


def _gardner_chess(state: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(_ranks(state._to_fen()))


def _shogi(state: Any) -> tuple[tuple[str, ...], ...]:
    from pgx.experimental.shogi import to_sfen

    return ((to_sfen(state),),)


def _animal_shogi(state: Any) -> tuple[tuple[str, ...], ...]:
    """Pieces from the view of the player to move, whose pieces are capitals, then both hands."""
    columns = np.asarray(state._board).reshape(3, 4)[::-1]  # pgx numbers columns from the right
    pieces = [tuple("PBRKGpbrkg."[piece] for piece in row) for row in columns.T]
    hands = tuple(str(count) for count in np.asarray(state._hand).ravel())
    return (*pieces, hands[:3], hands[3:])


_PGX_CELLS = {
    "tic_tac_toe": _absolute(3),
    "connect_four": _absolute(7),
    "othello": _othello,
    "hex": _hex,
    "go": _go,
    "chess": _chess,
    "gardner_chess": _gardner_chess,
    "shogi": _shogi,
    "animal_shogi": _animal_shogi,
}
