"""What is drawn of a state: a caption over a grid of cells.

Our states make their own picture (`state.picture()`); for pgx's board games the table at the
end does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Picture:
    """What is drawn of one state.

    Attributes:
      caption: one line: the game and whose move it is.
      rows: cells from top to bottom; "x" and "o" are the first and the second player's
        stones, "." is an empty cell, "" is none, any other text stands for itself.
    """

    caption: str
    rows: tuple[tuple[str, ...], ...]


def picture(state: Any) -> Picture:
    """Returns the picture of one unbatched state.

    Raises:
      ValueError: if neither the state nor the table below knows how to draw it.
    """
    if hasattr(state, "picture"):
        return state.picture()
    env_id = str(getattr(state, "env_id", type(state).__name__))
    cells = _PGX_CELLS.get("go" if env_id.startswith("go_") else env_id)
    if cells is None:
        raise ValueError(
            f"no drawing for states of {env_id!r}: give the state a picture() method that "
            f"returns games.Picture, or draw one of {', '.join(_PGX_CELLS)}."
        )
    return Picture(caption(state), cells(state))


def caption(state: Any) -> str:
    """Returns the game and, by pgx's player identity, whose move it is or who has won."""
    if not (state.terminated or state.truncated):
        return f"{state.env_id}: player {int(state.current_player)} to move"
    rewards = np.asarray(state.rewards)
    # pgx clears the rewards of a finished game that is stepped again.
    result = f"player {rewards.argmax()} won" if rewards.any() else "no winner on record"
    return f"{state.env_id}: over, {result}"


def stones(board: Any) -> tuple[str, ...]:
    """Returns a cell for each entry of an int array: 0 "x", 1 "o", -1 "."."""
    return tuple("xo."[int(owner)] for owner in np.asarray(board))


def rows_of(cells: Sequence[str], width: int) -> tuple[tuple[str, ...], ...]:
    """Cuts cells into rows of `width`, the last one maybe shorter."""
    return tuple(tuple(cells[i : i + width]) for i in range(0, len(cells), width))


def _absolute(width: int) -> Any:
    return lambda state: rows_of(stones(state._x.board), width)


def _relative(board: Any, color: Any) -> tuple[str, ...]:
    """Cells of a board on which positive means the player to move, whose colour is `color`."""
    owner = np.where(np.asarray(board) > 0, int(color), 1 - int(color))
    return stones(np.where(np.asarray(board) == 0, -1, owner))


def _othello(state: Any) -> tuple[tuple[str, ...], ...]:
    return rows_of(_relative(state._x.board, state._x.turn), 8)


def _hex(state: Any) -> tuple[tuple[str, ...], ...]:
    cells = _relative(state._x.board, state._x.color)
    rows = rows_of(cells, math.isqrt(len(cells)))
    # Each row starts half a cell further right; the grid can only say so in whole cells.
    return tuple(("",) * (y // 2) + row for y, row in enumerate(rows))


def _go(state: Any) -> tuple[tuple[str, ...], ...]:
    cells = _relative(state._x.board, 0)
    return rows_of(cells, math.isqrt(len(cells)))


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
    """Pieces as the player to move sees them (own in capitals), then both players' hands."""
    columns = np.asarray(state._board).reshape(3, 4)[::-1]  # pgx counts from the right
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
