"""Checks the moves of recorded games by the rules, in batches on the device."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

import games
from dualmctx.evaluation.game_record import GameRecord
from dualmctx.evaluation.move_parser import board_mismatch, parse_batch
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.replay import replay
from dualmctx.types import Environment
from games import san
from games.fen import start_position
from games.positions import RULES

# At most this number of moves are checked at once.
_MAX_MOVES = 2**18


def reject_other_boards(env: Environment, records: Iterable[GameRecord]) -> Iterator[GameRecord]:
    """Yields games; those on another board than that of the game `env` have only an error."""
    mismatch = functools.cache(functools.partial(board_mismatch, env))
    for record in records:
        error = None if record.board is None else mismatch(record.board)
        if error is not None:
            record = record._replace(moves=(), texts=(), error=error, has_start=False, setup=0)
        yield record


def check_games(env: Environment, records: Iterable[GameRecord], size: int) -> Iterator[GameRecord]:
    """Yields games; each ends with an error before its first move that the rules forbid.

    Args:
      env: the game that is evaluated.
      records: the games of a file, on the board of the game.
      size: number of games that are checked at once; one program is compiled for it.
    """
    batch, num_moves = list[GameRecord](), 0
    for record in records:
        batch.append(record)
        num_moves += len(record.moves)
        if len(batch) == size or num_moves > _MAX_MOVES:
            yield from _check(env, batch, size)
            batch, num_moves = [], 0
    yield from _check(env, batch, size)


def _check(env: Environment, records: Sequence[GameRecord], size: int) -> Iterator[GameRecord]:
    if not any(record.moves or record.fen for record in records):
        yield from records
        return
    asked = [Question(0, 0, list(x.moves) if x.has_start else [], x.fen) for x in records]
    parsed = parse_batch(env, asked)
    states, first_bad = replay(env, parsed, size)
    first_bad, *ends = jax.device_get((first_bad, states.terminated, states.truncated))
    is_over = np.logical_or(*ends)
    for row, (record, bad) in enumerate(zip(records, first_bad, strict=False)):
        if row in parsed.errors and record.has_start:
            yield record.up_to(0, parsed.errors[row])._replace(has_start=False)
        elif bad >= 0:
            problem = describe_bad_move(env, asked[row], int(bad), is_over=bool(is_over[row]))
            number, text = int(bad) + 1 - record.setup, record.texts[int(bad)]
            where = f"move {number}, {text!r}," if number > 0 else f"the stone on {text}"
            yield record.up_to(int(bad), f"{where} {problem}")
        else:
            yield record


def describe_bad_move(env: Environment, question: Question, index: int, *, is_over: bool) -> str:
    """Returns why a move is not possible.

    Args:
      env: the game.
      question: a valid position, whose move `index` is the first that is not possible.
      index: from 0.
      is_over: whether the game is over before it.
    """
    if not is_over:
        return "is illegal"
    reason = _end_of_chess(env, question, index) if games.is_chess(env) else ""
    return f"comes after the end of the game{reason}"


def _end_of_chess(env: Environment, question: Question, index: int) -> str:
    """Returns the reason why a game of chess is a draw after a number of moves, if it is one."""
    start = start_position(env) if question.fen is None else games.read_fen(env, question.fen)
    actions = games.parse_moves(env, question.moves, start)[:index]
    positions = [start]
    for move in games.format_moves(env, start, actions):
        positions.append(san.play(positions[-1], move))
    last: Any = positions[-1]
    if sum(position[:3] == last[:3] for position in positions) >= 3:
        return ": its position occurred for the third time"
    if last.halfmoves >= 100:
        return ": 50 moves without a capture or a move of a pawn"
    plies = 2 * (last.fullmoves - 1) + last.color
    return f": it has {plies} moves" if plies >= RULES[env.id].max_plies else ""
