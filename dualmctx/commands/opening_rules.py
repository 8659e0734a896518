"""Chooses the openings of `dualmctx compare`."""

from collections.abc import Sequence

import numpy as np

import games
from dualmctx.commands.load_players import LoadedPlayers
from dualmctx.commands.source import open_source
from dualmctx.errors import UserError
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.game_files.questions import Question
from dualmctx.matches.openings import (
    AcceptFn,
    Opening,
    accept_balanced,
    empty_openings,
    position_digests,
    random_openings,
)
from dualmctx.types import Environment

START, RANDOM, BALANCED = RULES = ("start", "random", "balanced")
"""The rules of `choose_openings`; the alternative is a file of positions."""
# Positions that a network evaluates at once.
_BATCH = 256


def choose_openings(
    rule: str, loaded: LoadedPlayers, number: int, plies: tuple[int, ...], seed: int
) -> list[Opening]:
    """Chooses openings.

    Args:
      rule: `start`: the initial position; `random`: random moves to different positions;
        `balanced`: random openings whose position is a draw under perfect play in a solvable game,
        or else has a value near 0 by the first network; or a file: its first positions.
      loaded: the game and its players.
      number: number of openings.
      plies: lengths of random openings.
      seed: seed of the random numbers.
    """
    if is_file(rule):
        return read_openings(loaded.env, rule, number)
    if rule == START:
        return empty_openings(number)
    if rule == RANDOM:
        return random_openings(loaded.env, number, plies=plies, seed=seed)
    accept = _accept_balanced(loaded)
    return random_openings(loaded.env, number, plies=plies, seed=seed, accept=accept)


def is_file(rule: str) -> bool:
    """Returns whether openings are read from a file."""
    return rule not in RULES


def _accept_balanced(loaded: LoadedPlayers) -> AcceptFn:
    env, trained = loaded.env, loaded.trained
    if games.is_solvable(env):
        if not np.any(games.solve(env).values == 0):
            raise UserError(
                f"{env.id} has no draws, so no opening is balanced; use --openings random"
            )
        return accept_balanced(env)
    if trained is None:
        raise UserError("balanced openings need a network; use --openings random")
    evaluator = build_evaluator(trained, None, batch_size=_BATCH, devices=1)
    return accept_balanced(env, lambda states: evaluator(states).value)


def read_openings(env: Environment, file: str, number: int) -> list[Opening]:
    """Reads the first openings of a file of positions; all lines of the file are checked.

    Args:
      env: a game of `games.make`.
      file: a file of positions, as for `dualmctx evaluate` (docs/evaluate.md).
      number: number of openings to return, one per pair of games.

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
    fens = ((line.fen or "").strip() for line in lines)
    return [(*filter(None, [fen]), *x) for fen, x in zip(fens, moves, strict=False)]


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
