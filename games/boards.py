"""The boards of games: the cells of a state as they are drawn, and those by which moves are made.

A state is unbatched, on the host. Cells are rows of text from top to bottom, as in
`games.pictures.Picture`; a cell of a move is a row and a column of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from games.abilities import Cell, Cells

Rows = tuple[tuple[str, ...], ...]


def stone_cells(board: Any) -> tuple[str, ...]:
    """Converts an int array to cells: 0 to "x", 1 to "o", -1 to "."."""
    return tuple("xo."[int(owner)] for owner in np.asarray(board))


def split_rows(cells: Sequence[str], width: int) -> Rows:
    """Splits cells into rows of `width` cells; the last row may be shorter."""
    return tuple(tuple(cells[i : i + width]) for i in range(0, len(cells), width))


def tic_tac_toe(state: Any) -> Rows:
    """Returns the cells, with capital letters."""
    return split_rows(tuple("XO."[int(owner)] for owner in np.asarray(state._x.board)), 3)


def connect_four(state: Any) -> Rows:
    """Returns six rows of seven cells."""
    return split_rows(stone_cells(state._x.board), 7)


def _relative(board: Any, color: Any) -> tuple[str, ...]:
    """Converts a board on which the stones of the player to move, `color`, are positive."""
    owner = np.where(np.asarray(board) > 0, int(color), 1 - int(color))
    return stone_cells(np.where(np.asarray(board) == 0, -1, owner))


def othello(state: Any) -> Rows:
    """Returns the board."""
    return split_rows(_relative(state._x.board, state._x.turn), 8)


def hex_rows(state: Any) -> Rows:
    """Returns the rhombus: each row is shifted by half a cell, as far as whole cells can show."""
    cells = _relative(state._x.board, state._x.color)
    rows = split_rows(cells, math.isqrt(len(cells)))
    return tuple(("",) * (y // 2) + row for y, row in enumerate(rows))


def go(state: Any) -> Rows:
    """Returns the points."""
    cells = _relative(state._x.board, 0)
    return split_rows(cells, math.isqrt(len(cells)))


def chess(state: Any) -> Rows:
    """Returns the pieces of chess or Gardner's chess, as in FEN, from White's side."""
    if state.env_id == "chess":
        from pgx.experimental.chess import to_fen

        fen = to_fen(state)
    else:
        fen = state._to_fen()
    ranks = fen.split(" ")[0].split("/")
    return tuple(tuple("".join("." * int(c) if c.isdigit() else c for c in rank)) for rank in ranks)


def shogi(state: Any) -> Rows:
    """Returns the board as Black, who begins, sees it; then the pieces in hand of both sides."""
    names = ("P", "L", "N", "S", "B", "R", "G", "K", "+P", "+L", "+N", "+S", "+B", "+R")
    x = state._x
    return _shogi_rows(np.asarray(x.board).reshape(9, 9), np.asarray(x.hand), int(x.color), names)


def animal_shogi(state: Any) -> Rows:
    """Returns the board as the first player sees it; then the pieces in hand of both players."""
    board, hands = np.asarray(state._board).reshape(3, 4), np.asarray(state._hand)
    return _shogi_rows(board, hands, int(state._turn), ("P", "B", "R", "K", "G"))


def _shogi_rows(board: Any, hands: Any, color: int, names: Sequence[str]) -> Rows:
    """Pieces of the side that begins are capitals; a piece in hand has its number, as in "P2".

    `board` is `[columns, rows]` int, the columns from the right, from the view of the player to
    move, whose pieces have the first numbers, those of `names`; -1 for an empty cell. `hands` is
    `[2, kinds]`, the numbers of pieces in hand, of the player to move first.
    """
    both = [*names, *map(str.lower, names)]
    if color:
        board, hands, both = board[::-1, ::-1], hands[::-1], both[len(names) :] + both[: len(names)]
    rows = tuple(tuple("." if x < 0 else both[x] for x in row) for row in board[::-1].T)
    letters = names[: hands.shape[1]], [name.lower() for name in names[: hands.shape[1]]]
    pairs = (zip(*pair, strict=True) for pair in zip(letters, hands.tolist(), strict=True))
    return (*rows, *(tuple(f"{name}{n}" if n else "" for name, n in hand) for hand in pairs))


def place_stones(state: Any, rows: Rows, moves: Mapping[int, str]) -> Mapping[int, Cells]:
    """Finds the cells of stones: action a fills cell a of the picture; further ones have none."""
    del state
    cells = [(y, x) for y, row in enumerate(rows) for x, cell in enumerate(row) if cell]
    return {a: Cells(None, (cells[a],), cells[a]) for a in moves if a < len(cells)}


def drop_stones(state: Any, rows: Rows, moves: Mapping[int, str]) -> Mapping[int, Cells]:
    """Finds the cells of Connect Four: any cell of the column; the stone falls to its lowest."""
    del state
    lowest = (np.array(rows) == ".").sum(axis=0) - 1
    column = [tuple((row, x) for row in range(len(rows))) for x in range(len(rows[0]))]
    return {x: Cells(None, column[x], (int(lowest[x]), x)) for x in moves}


def move_animals(state: Any, rows: Rows, moves: Mapping[int, str]) -> Mapping[int, Cells]:
    """Finds the piece of animal shogi, on its cell or in hand, and the cell to which it moves."""
    del rows
    # The first 8 · 12 actions are a direction and a start, the others a piece in hand and an end.
    steps = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))
    color, found = int(state._turn), {}
    for action in moves:
        kind, (x, y) = action // 12, divmod(action % 12, 4)
        start = 4 + color, kind - 8
        if kind < 8:
            start = _shogi_cell(x, y, (3, 4), color)
            x, y = x + steps[kind][0], y + steps[kind][1]
        end = _shogi_cell(x, y, (3, 4), color)
        found[action] = Cells(start, (end,), end)
    return found


def move_shogi(state: Any, rows: Rows, moves: Mapping[int, str]) -> Mapping[int, Cells]:
    """As `move_animals`. An action is a direction, or a piece in hand, and an end."""
    del rows
    board, color, found = np.asarray(state._x.board), int(state._x.color), {}
    for action in moves:
        kind, to = divmod(action, 81)
        end, start = _shogi_cell(*divmod(to, 9), (9, 9), color), (9 + color, kind - 20)
        if kind < 20:
            # The nearest own piece in the direction; own pieces are 0 … 13.
            square = next(x for x in _shogi_starts()[kind % 10][to] if 0 <= board[x] < 14)
            start = _shogi_cell(*divmod(square, 9), (9, 9), color)
        found[action] = Cells(start, (end,), end)
    return found


@functools.cache
def _shogi_starts() -> list[list[list[int]]]:
    """Returns, for each of 10 directions and 81 ends, the squares from which a piece may come."""
    from pgx._src.games.shogi import LEGAL_FROM_IDX  # pgx has no public table

    table = np.asarray(LEGAL_FROM_IDX).tolist()
    return [[[x for x in squares if x >= 0] for squares in ends] for ends in table]


def _shogi_cell(x: int, y: int, shape: tuple[int, int], color: int) -> Cell:
    """Returns the cell of a square of pgx, whose columns count from the right of the mover."""
    return (shape[1] - 1 - y, x) if color else (y, shape[0] - 1 - x)


def move_pieces(state: Any, rows: Rows, moves: Mapping[int, str]) -> Mapping[int, Cells]:
    """Finds the squares of chess from which and to which pieces move, by names in UCI notation."""
    del state

    def square(text: str) -> Cell:
        return len(rows) - int(text[1]), "abcdefgh".index(text[0])

    ends = {action: square(name[2:4]) for action, name in moves.items()}
    return {a: Cells(square(name[:2]), (ends[a],), ends[a]) for a, name in moves.items()}
