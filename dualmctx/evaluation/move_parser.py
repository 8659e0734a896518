"""Parses the moves of a batch of requested positions into flat arrays."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.questions import Board, Question
from dualmctx.types import Environment
from games.notation import action_names, is_joined, num_actions, split_moves

_UNKNOWN = -1


class ParsedMoves(NamedTuple):
    """The moves of S requested positions.

    Attributes:
      actions: `[M]` int32, the actions of all positions, one position after the other. Their
        legality is not checked.
      lengths: `[S]` the number of moves of each position; 0 if the position is invalid.
      starts: for each position, the `games.Position` of its FEN; `None` for the initial position.
      errors: the reason why a position is invalid, by the index of the position.
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


def parse_batch(env: Environment, questions: Sequence[Question]) -> ParsedMoves:
    """Parses requested positions, which may be invalid.

    Moves with a fixed name are looked up for the whole batch. The other positions are parsed one by
    one: those with a FEN, with moves in UCI notation, or with a move that is not in the table.
    """
    errors: dict[int, str] = {}
    starts: list[Any] = [None] * len(questions)
    joined = is_joined(env)
    moves = [split_moves(question.moves, joined) for question in questions]
    actions, lengths = _look_up(env, moves)
    apart = {row for row, x in enumerate(questions) if x.fen is not None or x.error is not None}
    apart |= set(_row_of_each_move(lengths)[actions == _UNKNOWN].tolist())
    for row in apart:
        try:
            starts[row], moves[row] = _parse(env, questions[row])
        except UserError as error:
            moves[row], errors[row] = (), str(error)
    actions, lengths = _look_up(env, moves) if apart else (actions, lengths)
    return ParsedMoves(actions, lengths, starts, errors)


def board_mismatch(env: Environment, board: Board) -> str | None:
    """Returns why moves on a board are not moves of a game; `None` if they are."""
    if env.id != board.game and not env.id.startswith(f"{board.game}_"):
        # PGN is of chess unless a tag says otherwise.
        tag = '; give its PGN the tag [Variant "Gardner"]' if env.id == "gardner_chess" else ""
        return f"the game is {board.game}, but the network plays {env.id}{tag}"
    # One action per cell, and perhaps one more to pass or to swap.
    cells, size = num_actions(env), board.size
    if not games.is_chess(env) and cells not in (size * size, size * size + 1):
        side = math.isqrt(cells)
        return f"the board is {size}×{size}, but the network plays {env.id} on {side}×{side}"
    return None


def _row_of_each_move(lengths: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(lengths)), lengths)


def _look_up(
    env: Environment, moves: Sequence[Sequence[int | str]]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the actions of all moves in a row, -1 for unknown moves; and `[S]` lengths."""
    lengths = np.fromiter(map(len, moves), np.int64, len(moves))
    flat = itertools.chain.from_iterable(moves)
    found = map(_action_table(env).get, flat, itertools.repeat(_UNKNOWN))
    return np.fromiter(found, np.int32, int(lengths.sum())), lengths


@functools.lru_cache(maxsize=64)
def _action_table(env: Environment) -> Mapping[int | str, int]:
    """Returns the actions by number and, if names do not depend on the position, by name."""
    if games.is_chess(env):
        return {action: action for action in range(num_actions(env))}
    actions = {name: action for action, name in enumerate(action_names(env))}
    lower, upper = ({change(x): actions[x] for x in actions} for change in (str.lower, str.upper))
    numbers = {action: action for action in actions.values()}
    return {**actions, **lower, **upper, **numbers}


def _parse(env: Environment, question: Question) -> tuple[Any, list[int]]:
    """Returns the position of the FEN, or `None` without a FEN, and the moves from there.

    Raises:
      ValueError: if the question is invalid.
    """
    if question.error is not None:
        raise UserError(question.error)
    start = None if question.fen is None else games.read_fen(env, question.fen)
    return start, games.parse_moves(env, question.moves, start)
