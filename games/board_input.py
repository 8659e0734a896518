"""How legal moves are entered on the picture of a state: the cells to choose with a pointer.

An own game may have the method `board_input` (`games.abilities.HasBoardInput`). The games of this
package are below; all other moves are entered by their names.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualmctx.errors import UserError
from games import uci
from games.abilities import Cell, Cells, ability
from games.chess_states import to_position
from games.fen import is_chess
from games.notation import action_names

if TYPE_CHECKING:
    import pgx


def _at(cell: Cell) -> Cells:
    """Returns the cells of a stone that is placed on a cell."""
    return Cells(None, (cell,), cell)


@functools.lru_cache(maxsize=64)
def _grid(num_cells: int, width: int) -> dict[int, Cells]:
    """Returns the cells of moves that fill the cells of a grid, row by row."""
    return {action: _at(divmod(action, width)) for action in range(num_cells)}


def _square(state: Any, actions: Sequence[int]) -> Mapping[int, Cells]:
    """One action per cell of a square board, and perhaps a pass, which has no cell."""
    del actions
    size = math.isqrt(len(state.legal_action_mask))
    return _grid(size**2, size)


def _connect2(state: Any, actions: Sequence[int]) -> Mapping[int, Cells]:
    del state, actions
    return _grid(4, 4)


def _hsr(state: Any, actions: Sequence[int]) -> Mapping[int, Cells]:
    """The rungs, 16 per row; the answers of the Opponent have no cells."""
    return {} if state._x.m else _grid(len(actions), 16)


def _connect_four(state: Any, actions: Sequence[int]) -> Mapping[int, Cells]:
    """A column is chosen by any of its cells; the stone falls to the lowest empty one."""
    board = np.asarray(state._x.board).reshape(6, 7)
    lowest = (board < 0).sum(axis=0) - 1
    column = [tuple((row, x) for row in range(6)) for x in range(7)]
    return {x: Cells(None, column[x], (int(lowest[x]), x)) for x in actions}


@functools.lru_cache(maxsize=16)
def _hex_grid(size: int) -> dict[int, Cells]:
    # Each row of the picture begins with row // 2 blanks.
    cells = (divmod(action, size) for action in range(size**2))
    return {action: _at((row, row // 2 + x)) for action, (row, x) in enumerate(cells)}


def _hex(state: Any, actions: Sequence[int]) -> Mapping[int, Cells]:
    """The cells; the swap has none."""
    del actions
    return _hex_grid(math.isqrt(len(state._x.board)))


def chess_cells(size: int, actions: Sequence[int], names: Sequence[str]) -> dict[int, Cells]:
    """Returns the square of the piece and that to which it moves; names are in UCI notation."""

    def square(text: str) -> Cell:
        return size - int(text[1]), "abcdefgh".index(text[0])

    pairs = ((square(name[:2]), square(name[2:4])) for name in names)
    return {
        action: Cells(start, (end,), end)
        for action, (start, end) in zip(actions, pairs, strict=True)
    }


def _animal_shogi(state: Any, actions: Sequence[int]) -> Mapping[int, Cells]:
    """The piece, on its cell or in hand, then the cell to which it moves."""
    # The first 8 · 12 actions are a direction and a start, the others a piece in hand and an end.
    steps = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))
    color, found = int(state._turn), {}
    for action in actions:
        kind, (x, y) = action // 12, divmod(action % 12, 4)
        if kind < 8:
            start, (x, y) = (
                _shogi_cell(x, y, (3, 4), color),
                (x + steps[kind][0], y + steps[kind][1]),
            )
        else:
            start = 4 + color, kind - 8
        end = _shogi_cell(x, y, (3, 4), color)
        found[action] = Cells(start, (end,), end)
    return found


def _shogi(state: Any, actions: Sequence[int]) -> Mapping[int, Cells]:
    """As in `_animal_shogi`. An action is a direction, or a piece in hand, and an end."""
    board, color, found = np.asarray(state._x.board), int(state._x.color), {}
    for action in actions:
        kind, to = divmod(action, 81)
        end = _shogi_cell(*divmod(to, 9), (9, 9), color)
        if kind < 20:
            squares = _shogi_starts()[kind % 10][to]
            # The nearest own piece in the direction; own pieces are 0 … 13.
            square = next(x for x in squares if 0 <= board[x] < 14)
            start = _shogi_cell(*divmod(square, 9), (9, 9), color)
        else:
            start = 9 + color, kind - 20
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


FINDERS: dict[str, Callable[[Any, Sequence[int]], Mapping[int, Cells]]] = {
    "connect2": _connect2,
    "hsr": _hsr,
    "tic_tac_toe": _square,
    "connect_four": _connect_four,
    "othello": _square,
    "hex": _hex,
    "go": _square,
    "animal_shogi": _animal_shogi,
    "shogi": _shogi,
}
"""`(state, legal actions) -> cells by action`, by the name of the game; other moves have none."""


class Entry(NamedTuple):
    """How a legal move is entered.

    Attributes:
      action: the number of the action.
      name: the move in the notation of the game.
      start: as in `Cells`.
      targets: as in `Cells`. Moves with equal start and targets, such as the promotions of a pawn,
        differ by their names only.
      shown: as in `Cells`.
    """

    action: int
    name: str
    start: Cell | None = None
    targets: tuple[Cell, ...] = ()
    shown: Cell | None = None


def entries(env: pgx.Env, state: Any) -> list[Entry]:
    """Returns how each legal move is entered on the picture of a state.

    Args:
      env: any environment.
      state: an unbatched state of `env`, on the host.

    Returns:
      One entry per legal move, by ascending action; none if the game is over. Coordinates are those
      of `games.pictures.picture(state).rows`.

    Raises:
      ValueError: if the method `board_input` of an own game raises, or does not return cells.
    """
    if state.terminated or state.truncated:
        return []
    actions = np.flatnonzero(np.asarray(state.legal_action_mask)).tolist()
    if is_chess(env):
        names = _chess_names(env, state, actions)
        cells: Mapping[int, Cells] = chess_cells(8 if env.id == "chess" else 5, actions, names)
    else:
        names = action_names(env)[actions].tolist()
        cells = _find_cells(env, state, actions)
    none = Cells()
    return [
        Entry(action, name, *cells.get(action, none))
        for action, name in zip(actions, names, strict=True)
    ]


def _find_cells(env: Any, state: Any, actions: Sequence[int]) -> Mapping[int, Cells]:
    own = ability(env, "board_input")
    if own is not None:
        return _check(env.id, own(state))
    find = FINDERS.get("go" if env.id.startswith("go_") else env.id)
    return {} if find is None else find(state, actions)


def _check(game: str, found: Any) -> dict[int, Cells]:
    """Checks the result of a user's method and converts its numbers to Python integers."""
    try:
        return {int(action): _to_cells(*cells) for action, cells in dict(found).items()}
    except (TypeError, ValueError) as error:
        raise UserError(
            f"board_input of game {game} must return games.Cells by action, whose cells are pairs "
            f"of a row and a column: {error}."
        ) from None


def _to_cells(start: Any = None, targets: Any = (), shown: Any = None) -> Cells:
    return Cells(
        None if start is None else _to_cell(start),
        tuple(map(_to_cell, targets)),
        None if shown is None else _to_cell(shown),
    )


def _to_cell(pair: Any) -> Cell:
    row, column = pair
    if row < 0 or column < 0:
        raise UserError(f"the cell {pair} is outside the picture")
    return int(row), int(column)


def _chess_names(env: pgx.Env, state: Any, actions: Sequence[int]) -> list[str]:
    line = uci.begin(to_position(env, state))
    return [uci.show(env.id, line, action) for action in actions]
