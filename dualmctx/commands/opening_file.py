"""Reads the openings of `dualmctx compare` from a file of positions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import games
from dualmctx.commands.source import open_source
from dualmctx.errors import UserError
from dualmctx.evaluation.questions import Question
from dualmctx.matches.openings import (
    Opening,
    position_digests,
    set_up_fens,
    split_opening,
    to_action_rows,
)
from dualmctx.types import Environment


class _ParsedLine(NamedTuple):
    """An opening and its line in the file."""

    question: Question
    opening: Opening


def read_openings(env: Environment, file: str, number: int) -> list[Opening]:
    """Reads the first openings of a file of positions; all lines of the file are checked.

    Args:
      env: a game of `games.make`.
      file: a file of positions, as for `dualmctx evaluate` (docs/evaluate.md).
      number: number of openings to return, one per pair of games.

    Returns:
      The openings, in the order of the file.

    Raises:
      ValueError: if the file does not exist or has too few positions; or if a line has no position,
        an illegal move, a finished game, or the position of an earlier line.
    """
    with open_source(file, flag="openings") as source:
        questions = source.for_game(env, size=1).questions
        lines = [_parse(env, question, file) for question in questions]
    _check(env, lines, file)
    if number > len(lines):
        raise UserError(
            f"games is {2 * number}, two per opening; {file} has only {len(lines)} positions: set "
            f"--games to at most {2 * len(lines)}, or add positions"
        )
    return [line.opening for line in lines[:number]]


def _parse(env: Environment, question: Question, file: str) -> _ParsedLine:
    """Parses a line; the legality of its moves is not checked."""
    try:
        if question.error is not None:
            raise UserError(question.error)
        start = None if question.fen is None else games.read_fen(env, question.fen)
        moves = games.parse_moves(env, question.moves, start)
    except UserError as error:
        raise UserError(f"{file}, line {question.line}: {error}") from None
    fen = () if question.fen is None else (question.fen,)
    return _ParsedLine(question, (*fen, *moves))


def _check(env: Environment, parsed: Sequence[_ParsedLine], file: str) -> None:
    """Checks that no game is over after its opening, and that all positions differ."""
    openings = [row.opening for row in parsed]
    starts = set_up_fens(env, openings)
    states, first_bad = games.replay_checked(env, to_action_rows(openings), starts)
    is_over = np.asarray(states.terminated | states.truncated)
    lines: dict[bytes, int] = {}
    rows = zip(
        parsed, np.asarray(first_bad).tolist(), is_over, position_digests(states), strict=True
    )
    for row, bad, over, position in rows:
        where = f"{file}, line {row.question.line}"
        if bad >= 0:
            _, moves = split_opening(row.opening)
            problem = "comes after the end of the game" if over else "is illegal"
            raise UserError(f"{where}: move {bad + 1} of {len(moves)} {problem}")
        if over:
            raise UserError(f"{where}: the game is over; remove the line")
        first_line = lines.setdefault(position, row.question.line)
        if first_line != row.question.line:
            raise UserError(
                f"{where}: the position is the same as in line {first_line}, so the same games "
                "would be played twice; remove one of the lines"
            )
