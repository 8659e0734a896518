"""The openings that `dualmctx compare` plays from."""

import numpy as np

import games
from dualmctx.commands.lineup import Lineup
from dualmctx.commands.opening_file import read_openings
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.matches.openings import (
    AcceptFn,
    Opening,
    balanced,
    drawn,
    from_start,
    random_openings,
)

START, RANDOM, BALANCED = RULES = ("start", "random", "balanced")
"""What `rule` of `choose_openings` may be, beside a file of positions."""
# The largest value that a network may give a balanced position, and positions at once.
_LIMIT, _BATCH = 0.2, 256


def choose_openings(
    rule: str, lineup: Lineup, number: int, plies: tuple[int, ...], seed: int
) -> list[Opening]:
    """Chooses openings.

    Args:
      rule: `start`, the start of the game each time; `random`, random moves to positions that
        differ; `balanced`, those of them that perfect play draws in a small game, in others those
        that the first network values near 0; or a file, the first of its positions.
      lineup: the game and its players.
      number: of openings.
      plies: their lengths.
      seed: of all draws.

    Raises:
      ValueError: when there are not as many, or a file is not as `read_openings` needs it, in one
        line.
    """
    if is_file(rule):
        return read_openings(lineup.env, rule, number)
    if rule == START:
        return from_start(number)
    if rule == RANDOM:
        return random_openings(lineup.env, number, plies=plies, seed=seed)
    accept = _accept_balanced(lineup)
    return random_openings(lineup.env, number, plies=plies, seed=seed, accept=accept)


def is_file(rule: str) -> bool:
    """Returns whether openings are read from a file."""
    return rule not in RULES


def _accept_balanced(lineup: Lineup) -> AcceptFn:
    if games.is_solvable(lineup.env):
        if not np.any(games.solve(lineup.env).values == 0):
            raise ValueError(f"{lineup.env.id} has no draws, so nothing is balanced; take random")
        return drawn(lineup.env)
    trained = lineup.trained
    if trained is None:
        raise ValueError("there is no network to tell what is balanced; take random openings")
    evaluator = build_evaluator(trained, None, batch_size=_BATCH, devices=1)
    return balanced(lambda states: evaluator(states).value, _LIMIT)
