"""How legal moves are entered on the picture of a state: the cells to choose with a pointer.

An own game may have the method `board_input` (`games.abilities.HasBoardInput`). The games of this
package are in `games.board_cells`; all other moves are entered by their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualmctx.errors import UserError
from games import uci
from games.abilities import ability
from games.board_cells import FINDERS, Cell, Cells, chess_cells
from games.chess_states import to_position
from games.fen import is_chess
from games.notation import action_names

if TYPE_CHECKING:
    import pgx


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
