"""Reads the openings of `dualmctx compare` from a file of positions."""

from collections.abc import Sequence

import games
from dualmctx.commands.source import open_source
from dualmctx.errors import UserError
from dualmctx.evaluation.questions import Question
from dualmctx.matches.openings import Opening, position_digests
from dualmctx.types import Environment


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
        lines = list(source.for_game(env, size=1).questions)
    opened = games.open_positions(env, lines)
    _check(opened, lines, file)
    if number > len(lines):
        raise UserError(
            f"games is {2 * number}, two per opening; {file} has only {len(lines)} positions: set "
            f"--games to at most {2 * len(lines)}, or add positions"
        )
    moves = (opened.parsed.actions_of(row).tolist() for row in range(number))
    return [(*filter(None, [line.fen]), *x) for line, x in zip(lines, moves, strict=False)]


def _check(opened: games.OpenedPositions, lines: Sequence[Question], file: str) -> None:
    """Checks that no line is wrong, no game is over after it, and all positions differ."""
    numbers: dict[bytes, int] = {}
    for row, position in enumerate(position_digests(opened.states_on_host)):
        where = f"{file}, line {lines[row].line}"
        if row in opened.errors:
            raise UserError(f"{where}: {opened.errors[row]}")
        if opened.is_over[row]:
            raise UserError(f"{where}: the game is over; remove the line")
        first_line = numbers.setdefault(position, lines[row].line)
        if first_line != lines[row].line:
            raise UserError(
                f"{where}: the position is the same as in line {first_line}, so the same games "
                "would be played twice; remove one of the lines"
            )
