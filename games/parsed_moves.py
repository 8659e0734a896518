"""Parses a batch of lines of moves into flat arrays."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualmctx.errors import UserError
from games.fen import is_chess, read_fen
from games.notation import action_names, num_actions, parse_moves, split_joined, split_moves

if TYPE_CHECKING:
    import pgx

_UNKNOWN = -1


class Line(NamedTuple):
    """A line of moves. Any object with these attributes will do, such as the record of a game.

    Attributes:
      moves: the moves, as for `parse_moves`.
      fen: the FEN in which the moves begin; `None` for the initial position.
      error: the reason why the line is known to be wrong; `None` if there is none.
    """

    moves: Any = ()
    fen: str | None = None
    error: str | None = None


class ParsedMoves(NamedTuple):
    """The moves of S lines.

    Attributes:
      actions: `[M]` int32, the actions of all lines, one line after the other. Their legality is
        not checked.
      lengths: `[S]` the number of moves of each line; 0 if the line is wrong.
      starts: for each line, the position of its FEN; `None` for the initial position.
      errors: the reason why a line is wrong, by the index of the line.
    """

    actions: np.ndarray
    lengths: np.ndarray
    starts: list[Any]
    errors: dict[int, str]

    def table(self, first: int, num_rows: int, num_columns: int) -> np.ndarray:
        """Returns `[num_rows, num_columns]` int32 actions from move `first` on, padded with -1."""
        begins = np.cumsum(self.lengths) - self.lengths
        columns = np.arange(len(self.actions)) - np.repeat(begins + first, self.lengths)
        is_inside = (columns >= 0) & (columns < num_columns)
        table = np.full((num_rows, num_columns), -1, np.int32)
        table[_row_of_each_move(self.lengths)[is_inside], columns[is_inside]] = self.actions[
            is_inside
        ]
        return table

    def actions_of(self, index: int) -> np.ndarray:
        """Returns the `[D]` int32 actions of one line."""
        end = int(self.lengths[: index + 1].sum())
        return self.actions[end - int(self.lengths[index]) : end]


def parse_lines(env: pgx.Env, lines: Sequence[Any]) -> ParsedMoves:
    """Parses lines of moves, which may be wrong.

    Moves with a fixed name are looked up for the whole batch. The other lines are parsed one by
    one: those with a FEN, with moves in UCI notation, or with a move that is not in the table.
    """
    errors: dict[int, str] = {}
    starts: list[Any] = [None] * len(lines)
    split = split_joined(env)
    moves = [split_moves(line.moves, split) for line in lines]
    actions, lengths = _look_up(env, moves)
    apart = {row for row, x in enumerate(lines) if x.fen is not None or x.error is not None}
    apart |= set(_row_of_each_move(lengths)[actions == _UNKNOWN].tolist())
    for row in apart:
        try:
            starts[row], moves[row] = _parse(env, lines[row])
        except UserError as error:
            moves[row], errors[row] = (), str(error)
    actions, lengths = _look_up(env, moves) if apart else (actions, lengths)
    return ParsedMoves(actions, lengths, starts, errors)


def _row_of_each_move(lengths: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(lengths)), lengths)


def _look_up(env: pgx.Env, moves: Sequence[Sequence[int | str]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the actions of all moves in a row, -1 for unknown moves; and `[S]` lengths."""
    lengths = np.fromiter(map(len, moves), np.int64, len(moves))
    flat = itertools.chain.from_iterable(moves)
    table = _action_table(env)
    # Other types, such as True, may be equal to a number, or have no hash.
    found = (table.get(x, _UNKNOWN) if type(x) in (int, str) else _UNKNOWN for x in flat)
    return np.fromiter(found, np.int32, int(lengths.sum())), lengths


@functools.lru_cache(maxsize=64)
def _action_table(env: pgx.Env) -> Mapping[int | str, int]:
    """Returns the actions by number and, if names do not depend on the position, by name."""
    if is_chess(env):
        return {action: action for action in range(num_actions(env))}
    actions = {name: action for action, name in enumerate(action_names(env))}
    lower, upper = ({change(x): actions[x] for x in actions} for change in (str.lower, str.upper))
    numbers = {action: action for action in actions.values()}
    return {**actions, **lower, **upper, **numbers}


def _parse(env: pgx.Env, line: Any) -> tuple[Any, list[int]]:
    """Returns the position of the FEN, or `None` without a FEN, and the moves from there."""
    if line.error is not None:
        raise UserError(line.error)
    start = None if line.fen is None else read_fen(env, line.fen)
    return start, parse_moves(env, line.moves, start)
