"""Chooses the openings of `dualmctx compare`."""

import numpy as np

import games
from dualmctx.commands.load_players import LoadedPlayers
from dualmctx.commands.opening_file import read_openings
from dualmctx.errors import UserError
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.matches.openings import (
    AcceptFn,
    Opening,
    accept_drawn,
    accept_small_values,
    empty_openings,
    random_openings,
)

START, RANDOM, BALANCED = RULES = ("start", "random", "balanced")
"""The rules of `choose_openings`; the alternative is a file of positions."""
# Maximum absolute value that the network gives a balanced position; positions per batch.
_LIMIT, _BATCH = 0.2, 256


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

    Returns:
      The openings.

    Raises:
      ValueError: if there are too few openings; also the errors of `read_openings`.
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
    if games.is_solvable(loaded.env):
        if not np.any(games.solve(loaded.env).values == 0):
            raise UserError(
                f"{loaded.env.id} has no draws, so no opening is balanced; use --openings random"
            )
        return accept_drawn(loaded.env)
    trained = loaded.trained
    if trained is None:
        raise UserError("balanced openings need a network; use --openings random")
    evaluator = build_evaluator(trained, None, batch_size=_BATCH, devices=1)
    return accept_small_values(lambda states: evaluator(states).value, _LIMIT)
