"""Pictures of states: a caption and a grid of cells.

States of this package have a method `picture()`. A table at the end covers pgx's board games.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dualmctx.import_path import describe

Rows = tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Picture:
    """The picture of one state.

    Attributes:
      caption: one line with the game and the player to move.
      rows: cells from top to bottom: "x" and "o" for the stones of the first and the second
        player, "." for an empty cell, "" for no cell; any other text is shown unchanged.
      row_labels: a label for each row, shown to the left of it; may be empty.
      column_labels: a label for each column, shown below; may be empty.
      is_chess: whether the cells are pieces as in FEN, on squares of two colours.
      marked: row and column, from 0, of the cells that the last move changed.
    """

    caption: str
    rows: Rows
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()
    is_chess: bool = False
    marked: frozenset[tuple[int, int]] = frozenset()


def picture(state: Any, before: Any = None) -> Picture:
    """Returns the picture of one unbatched state.

    Args:
      state: a state.
      before: the state before the last move; `None` marks no cells.

    Raises:
      ValueError: if the state has no method `picture()` and its game is not in the table.
    """
    drawn = _own_picture(state) if hasattr(state, "picture") else _board_picture(state)
    if before is None:
        return drawn
    return dataclasses.replace(drawn, marked=changed_cells(picture(before).rows, drawn.rows))


def _own_picture(state: Any) -> Picture:
    """Returns the picture that the state draws itself; describes an exception of a user's code."""
    try:
        return state.picture()
    except Exception as error:
        raise ValueError(f"picture() of {type(state).__name__} raised {describe(error)}") from error


def changed_cells(before: Rows, after: Rows) -> frozenset[tuple[int, int]]:
    """Returns the row and the column of the cells that a move changed.

    If a move placed stones on empty cells, only these count, not the stones that it turned over or
    captured. A moved piece counts with the square that it left. Words and numbers do not count.
    """
    pairs = {
        (y, x): (old, new)
        for y, (old_row, new_row) in enumerate(zip(before, after, strict=False))
        for x, (old, new) in enumerate(zip(old_row, new_row, strict=False))
        if old != new and len(old) == len(new) == 1
    }
    placed = {place for place, pair in pairs.items() if pair in ((".", "x"), (".", "o"))}
    return frozenset(placed or pairs)


def caption(state: Any) -> str:
    """Returns the game and the player to move or the winner, named by the stones or pieces.

    In games without a name for the players, they are the first and the second player.
    """
    names = player_names(_name(state))
    side = side_to_move(state)
    if not (state.terminated or state.truncated):
        return f"{state.env_id}: {names[side]} to move"
    rewards = np.asarray(state.rewards)
    # pgx clears the rewards if `step` is called again on a finished game.
    if not rewards.any():
        return f"{state.env_id}: over, no winner on record"
    # The rewards are those of players 0 and 1, and either may have the first side.
    winner = side if rewards.argmax() == state.current_player else 1 - side
    return f"{state.env_id}: over, {names[winner]} won"


def player_names(game: str) -> tuple[str, str]:
    """Returns the names of the side that begins and of the other side, by the name of the game."""
    board = _BOARDS.get("go" if game.startswith("go_") else game)
    return ("first player", "second player") if board is None else board.players


def side_to_move(state: Any) -> int:
    """Returns 0 for the side that begins the game, 1 for the other."""
    position = getattr(state, "_x", None)
    for holder, field in ((position, "color"), (position, "turn"), (state, "_turn")):
        if hasattr(holder, field):
            return int(getattr(holder, field))
    return int(state._step_count) % 2


def _name(state: Any) -> str:
    name = str(getattr(state, "env_id", type(state).__name__))
    return "go" if name.startswith("go_") else name


def _board_picture(state: Any) -> Picture:
    """Returns the picture of a state of a game in the table below."""
    board = _BOARDS.get(_name(state))
    if board is None or board.cells is None:
        known = ", ".join(name for name, row in _BOARDS.items() if row.cells)
        raise ValueError(
            f"no drawing for states of {_name(state)!r}: give the state a method picture() that "
            f"returns games.Picture; the built-in games are {known}."
        )
    rows = board.cells(state)
    return Picture(
        caption=caption(state),
        rows=rows,
        row_labels=board.row_labels(len(rows)),
        column_labels=board.column_labels(len(rows[0])),
        is_chess=board.is_chess,
    )


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


class _Board(NamedTuple):
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

_BOARDS = {
    "connect2": _Board(_STONES),
    "hsr": _Board(("Proposer", "Opponent")),
    "tic_tac_toe": _Board(("X", "O"), _tic_tac_toe),
    "connect_four": _Board(_STONES, _connect_four, _up),
    "othello": _Board(_STONES, _othello, _letters, _up),
    "hex": _Board(_STONES, _hex),
    "go": _Board(_STONES, _go, _go_letters, _down),
    "chess": _Board(_CHESS, _chess, _letters, _down, is_chess=True),
    "gardner_chess": _Board(_CHESS, _gardner_chess, _letters, _down, is_chess=True),
    "shogi": _Board(("black", "white"), _shogi, _down, _shogi_ranks),
    "animal_shogi": _Board(("first player", "second player"), _animal_shogi),
}
