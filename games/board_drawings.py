"""The drawings of the board games: the cells of a state, labels, and the names of the sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

Rows = tuple[tuple[str, ...], ...]


def stone_cells(board: Any) -> tuple[str, ...]:
    """Converts an int array to cells: 0 to "x", 1 to "o", -1 to "."."""
    return tuple("xo."[int(owner)] for owner in np.asarray(board))


def split_rows(cells: Sequence[str], width: int) -> Rows:
    """Splits cells into rows of `width` cells; the last row may be shorter."""
    return tuple(tuple(cells[i : i + width]) for i in range(0, len(cells), width))


def _tic_tac_toe(state: Any) -> Rows:
    return split_rows(tuple("XO."[int(owner)] for owner in np.asarray(state._x.board)), 3)


def _connect_four(state: Any) -> Rows:
    return split_rows(stone_cells(state._x.board), 7)


def _relative(board: Any, color: Any) -> tuple[str, ...]:
    """Converts a board on which the stones of the player to move, `color`, are positive."""
    owner = np.where(np.asarray(board) > 0, int(color), 1 - int(color))
    return stone_cells(np.where(np.asarray(board) == 0, -1, owner))


def _othello(state: Any) -> Rows:
    return split_rows(_relative(state._x.board, state._x.turn), 8)


def _hex(state: Any) -> Rows:
    cells = _relative(state._x.board, state._x.color)
    rows = split_rows(cells, math.isqrt(len(cells)))
    # Each row is shifted by half a cell; the grid can only shift by whole cells.
    return tuple(("",) * (y // 2) + row for y, row in enumerate(rows))


def _go(state: Any) -> Rows:
    cells = _relative(state._x.board, 0)
    return split_rows(cells, math.isqrt(len(cells)))


def _ranks(fen: str) -> Iterable[tuple[str, ...]]:
    for rank in fen.split(" ")[0].split("/"):
        yield tuple("".join("." * int(c) if c.isdigit() else c for c in rank))


def _chess(state: Any) -> Rows:
    from pgx.experimental.chess import to_fen

    return tuple(_ranks(to_fen(state)))


def _gardner_chess(state: Any) -> Rows:
    return tuple(_ranks(state._to_fen()))


def _shogi(state: Any) -> Rows:
    """The board as Black, who begins, sees it; then the pieces in hand of Black and of White."""
    names = ("P", "L", "N", "S", "B", "R", "G", "K", "+P", "+L", "+N", "+S", "+B", "+R")
    x = state._x
    return _shogi_rows(np.asarray(x.board).reshape(9, 9), np.asarray(x.hand), int(x.color), names)


def _animal_shogi(state: Any) -> Rows:
    """The board as the first player sees it; then the pieces in hand of both players."""
    board, hands = np.asarray(state._board).reshape(3, 4), np.asarray(state._hand)
    return _shogi_rows(board, hands, int(state._turn), ("P", "B", "R", "K", "G"))


def _shogi_rows(board: Any, hands: Any, color: int, names: Sequence[str]) -> Rows:
    """Pieces of the side that begins are capitals; a piece in hand has its number, as in "P2".

    Args:
      board: `[columns, rows]` int, the columns from the right, from the view of the player to move,
        whose pieces have the first numbers; -1 for an empty cell.
      hands: `[2, kinds]` the numbers of pieces in hand, of the player to move first.
      color: the side to move.
      names: the letters of the pieces, by number.
    """
    both = [*names, *map(str.lower, names)]
    if color:
        board, hands, both = board[::-1, ::-1], hands[::-1], both[len(names) :] + both[: len(names)]
    rows = tuple(tuple("." if x < 0 else both[x] for x in row) for row in board[::-1].T)
    letters = names[: hands.shape[1]], [name.lower() for name in names[: hands.shape[1]]]
    pairs = (zip(*pair, strict=True) for pair in zip(letters, hands.tolist(), strict=True))
    return (*rows, *(tuple(f"{name}{n}" if n else "" for name, n in hand) for hand in pairs))


def _none(number: int) -> tuple[str, ...]:
    del number
    return ()


def _up(number: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(1, number + 1))


def _down(number: int) -> tuple[str, ...]:
    return _up(number)[::-1]


def _shogi_ranks(number: int) -> tuple[str, ...]:
    """The ranks, and no labels for the pieces in hand."""
    return (*_letters(number - 2), "", "")


def _letters(number: int) -> tuple[str, ...]:
    return tuple("abcdefghijklmnopqrstuvwxyz"[:number])


def _go_letters(number: int) -> tuple[str, ...]:
    return tuple("ABCDEFGHJKLMNOPQRSTUVWXYZ"[:number])


class Board(NamedTuple):
    """The drawing of a game.

    Attributes:
      players: the names of the side that begins and of the other side.
      cells: from a state, the cells; `None` if the state has a method `picture()`.
      column_labels: from the number of columns, their labels, as in the game's notation.
      row_labels: likewise for the rows.
      is_chess: as in `Picture`.
    """

    players: tuple[str, str]
    cells: Callable[[Any], Rows] | None = None
    column_labels: Callable[[int], tuple[str, ...]] = _none
    row_labels: Callable[[int], tuple[str, ...]] = _none
    is_chess: bool = False


# Stones are letters in text and discs in SVG.
_STONES = ("x (black)", "o (white)")
_CHESS = ("white", "black")

BOARDS = {
    "connect2": Board(_STONES),
    "hsr": Board(("Proposer", "Opponent")),
    "tic_tac_toe": Board(("X", "O"), _tic_tac_toe),
    "connect_four": Board(_STONES, _connect_four, _up),
    "othello": Board(_STONES, _othello, _letters, _up),
    "hex": Board(_STONES, _hex),
    "go": Board(_STONES, _go, _go_letters, _down),
    "chess": Board(_CHESS, _chess, _letters, _down, is_chess=True),
    "gardner_chess": Board(_CHESS, _gardner_chess, _letters, _down, is_chess=True),
    "shogi": Board(("black", "white"), _shogi, _down, _shogi_ranks),
    "animal_shogi": Board(("first player", "second player"), _animal_shogi),
}
