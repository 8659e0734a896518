"""Openings that a file gives: positions from which `dualmctx compare` plays."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import games
from dualmctx.commands.source import open_source
from dualmctx.evaluation.positions_file import Question
from dualmctx.matches.openings import Opening, as_rows, identify, set_up_fens, split_opening
from dualmctx.types import Environment


class _Read(NamedTuple):
    """An opening and the line that it is in."""

    question: Question
    opening: Opening


def read_openings(env: Environment, file: str, number: int) -> list[Opening]:
    """Reads the first openings of a file of positions; all of its lines are checked.

    Args:
      env: a game as `games.make` gives it.
      file: as `dualmctx evaluate` reads positions (docs/evaluate.md).
      number: of openings to return, one for each pair of games.

    Returns:
      The openings, in the order of the file.

    Raises:
      ValueError: when there is no such file, it has fewer positions, or a line has no position, an
        illegal move, a finished game or the position of a line before it, in one line.
    """
    with open_source(file, flag="openings") as source:
        read = [_read(env, question, file) for question in source.questions]
    _check(env, read, file)
    if number > len(read):
        raise ValueError(
            f"games is {2 * number}, two from each opening; {file} has {len(read)} positions: "
            f"ask for {2 * len(read)} games at most, or give it more positions"
        )
    return [row.opening for row in read[:number]]


def _read(env: Environment, question: Question, file: str) -> _Read:
    """Reads a line; whether its moves are legal is not asked."""
    try:
        if question.error is not None:
            raise ValueError(question.error)
        start = None if question.fen is None else games.read_fen(env, question.fen)
        moves = games.parse_moves(env, question.moves, start)
    except ValueError as error:
        raise ValueError(f"{file}, line {question.line}: {error}") from None
    fen = () if question.fen is None else (question.fen,)
    return _Read(question, (*fen, *moves))


def _check(env: Environment, read: Sequence[_Read], file: str) -> None:
    """Checks that games can go on from all positions, and that the positions differ."""
    openings = [row.opening for row in read]
    states, first_bad = games.replay_checked(env, as_rows(openings), set_up_fens(env, openings))
    is_over = np.asarray(states.terminated | states.truncated)
    lines: dict[bytes, int] = {}
    rows = zip(read, np.asarray(first_bad).tolist(), is_over, identify(states), strict=True)
    for row, bad, over, position in rows:
        where = f"{file}, line {row.question.line}"
        if bad >= 0:
            _, moves = split_opening(row.opening)
            why = "comes after the end of the game" if over else "is illegal"
            raise ValueError(f"{where}: move {bad + 1} of {len(moves)} {why}")
        if over:
            raise ValueError(f"{where}: the game is over there; leave it out")
        known = lines.setdefault(position, row.question.line)
        if known != row.question.line:
            raise ValueError(
                f"{where}: the same position as in line {known}, so the same games would be "
                "played twice; leave one out"
            )
