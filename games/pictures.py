"""Pictures of states: a caption and a grid of cells; and how moves are entered on them.

A state may have a method `picture()`, and a game the method `board_input`
(`games.abilities`). `games.records` has the drawings and the cells of pgx's games;
moves without cells are entered by their names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualmctx.errors import UserError
from dualmctx.import_path import describe
from games.abilities import Cell, Cells, ability
from games.boards import Rows
from games.notation import format_action
from games.records import GAMES, record_of

if TYPE_CHECKING:
    import pgx


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

    def to_dict(self) -> dict[str, Any]:
        """Returns the attributes as JSON types; the marked cells are sorted."""
        return {
            "caption": self.caption,
            "rows": [list(row) for row in self.rows],
            "row_labels": list(self.row_labels),
            "column_labels": list(self.column_labels),
            "is_chess": self.is_chess,
            "marked": [list(cell) for cell in sorted(self.marked)],
        }


def picture(state: Any, before: Any = None) -> Picture:
    """Returns the picture of one unbatched state.

    Args:
      state: a state.
      before: the state before the last move; `None` marks no cells.

    Raises:
      ValueError: if the state has no method `picture()` and `games.records` has no drawing for it;
        or if the drawing raises.
    """
    if not hasattr(state, "picture"):
        drawn = _board_picture(state)
    else:
        try:
            drawn = state.picture()
        except Exception as error:
            message = f"picture() of {type(state).__name__} raised {describe(error)}"
            raise UserError(message) from error
    return mark_last_move(drawn, None if before is None else picture(before))


def mark_last_move(drawn: Picture, before: Picture | None) -> Picture:
    """Marks the cells that the last move changed, given the picture before it; `None` for none."""
    if before is None:
        return drawn
    return dataclasses.replace(drawn, marked=changed_cells(before.rows, drawn.rows))


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
    winner = winning_side(state, (state.current_player + side) % 2)
    # pgx clears the rewards if `step` is called again on a finished game.
    won = "no winner on record" if winner is None else f"{names[winner]} won"
    return f"{state.env_id}: over, {won}"


def winning_side(state: Any, first_player: int) -> int | None:
    """Returns the side that won a finished game, 0 for the side that begins; `None` if drawn."""
    rewards = np.asarray(state.rewards)
    return int(rewards.argmax() != first_player) if rewards.any() else None


def player_names(game: str) -> tuple[str, str]:
    """Returns the names of the side that begins and of the other side, by the name of the game."""
    return record_of(game).players


def side_to_move(state: Any) -> int:
    """Returns 0 for the side that begins the game, 1 for the other."""
    position = getattr(state, "_x", None)
    for holder, field in ((position, "color"), (position, "turn"), (state, "_turn")):
        if hasattr(holder, field):
            return int(getattr(holder, field))
    return int(state._step_count) % 2


def _name(state: Any) -> str:
    return str(getattr(state, "env_id", type(state).__name__))


def _board_picture(state: Any) -> Picture:
    """Returns the picture of a state of a game that `games.records` draws."""
    record = record_of(_name(state))
    if record.cells is None:
        known = ", ".join(name for name, row in GAMES.items() if row.cells)
        raise UserError(
            f"no drawing for states of {_name(state)!r}: give the state a method picture() that "
            f"returns games.Picture; the built-in games are {known}."
        )
    try:
        rows = record.cells(state)
        row_labels, column_labels = record.labels(len(rows), len(rows[0]))
        return Picture(
            caption=caption(state),
            rows=rows,
            row_labels=tuple(row_labels),
            column_labels=tuple(column_labels),
            is_chess=record.is_chess,
        )
    except Exception as error:  # a user's state that has the name of another game
        raise UserError(
            f"the drawing of {_name(state)!r} does not fit {type(state).__name__}: it raised "
            f"{describe(error)}; give the state a method picture() that returns games.Picture."
        ) from error


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
      of `picture(state).rows`.

    Raises:
      ValueError: if the method `board_input` of an own game raises, or does not return cells.
    """
    if state.terminated or state.truncated:
        return []
    actions = np.flatnonzero(np.asarray(state.legal_action_mask)).tolist()
    moves = {action: format_action(env, state, action) for action in actions}
    cells, none = _find_cells(env, state, moves), Cells()
    return [Entry(action, name, *cells.get(action, none)) for action, name in moves.items()]


def _find_cells(env: Any, state: Any, moves: Mapping[int, str]) -> Mapping[int, Cells]:
    own = ability(env, "board_input")
    if own is not None:
        return _check(env.id, own(state))
    find = record_of(env.id).cells_of_moves
    return {} if find is None else find(state, picture(state).rows, moves)


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
