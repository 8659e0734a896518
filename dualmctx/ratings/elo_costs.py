"""Elo per doubling of the budget, from results of the same player at several budgets."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dualmctx.ratings.davidson import bounded_from_below, fit, robust_errors
from dualmctx.ratings.elo import ELO
from dualmctx.ratings.intervals import add_unseen_pairs, half_widths
from dualmctx.ratings.results import Results, count_wins_and_draws


class Doubling(NamedTuple):
    """The Elo gained by doubling the budget of a player.

    Attributes:
      players: names of the same player at several budgets.
      elo: Elo per doubling of the cost: the slope of a line through Elo over log2(cost); `None` if
        the results do not determine it.
      low: lower end of the interval; `None` if it is unbounded.
      high: upper end of the interval; `None` if it is unbounded.
      percent: additional cost of one point of Elo in percent, 100 (2^(1 / elo) - 1); `None` unless
        `elo` is positive.
    """

    players: tuple[str, ...]
    elo: float | None
    low: float | None
    high: float | None
    percent: float | None


def elo_per_doubling(
    results: Results, players: Sequence[str], costs: Sequence[float], *, level: float = 0.95
) -> Doubling:
    """Estimates the Elo gained by doubling the budget of a player.

    The interval is computed as in `elo.rate`: it includes the slopes that would result if one of
    the players had won or lost `intervals.unseen_pairs` more pairs. It does not account for
    deviations of Elo from a straight line.

    Args:
      results: results of all players.
      players: names of the same player at several budgets.
      costs: cost of a move of each of them, positive and not all equal.
      level: confidence level of the interval.

    Returns:
      The gain and its interval.
    """
    places = [results.players.index(name) for name in players]
    gaps = np.log2(costs) - np.mean(np.log2(costs))
    contrast = np.zeros(len(results.players))
    contrast[places] = gaps / np.sum(gaps**2)
    by_opening = count_wins_and_draws(results.by_opening)
    wins, draws = (x.sum(0) for x in by_opening)
    strengths, draw_rate = fit(wins, draws)
    bounds = bounded_from_below(wins, draws)
    if not bounds[np.ix_(places, places)].all():
        return Doubling(tuple(players), None, None, None, None)
    errors, openings = robust_errors(strengths, float(draw_rate), *by_opening, contrast[None])
    elo = float(ELO * contrast @ strengths)
    half = float(ELO * half_widths(errors, openings, level)[0])
    tables = add_unseen_pairs(wins, (wins + wins.T + draws) * (bounds & bounds.T), 2, level)[
        :, places
    ]
    unseen = ELO * fit(tables, np.broadcast_to(draws, tables.shape))[0] @ contrast
    low, high = min(elo - half, float(unseen.min())), max(elo + half, float(unseen.max()))
    low, high = (None if math.isinf(x) else x for x in (low, high))
    # For smaller gains the percentage would overflow.
    percent = 100 * (2 ** (1 / elo) - 1) if elo > 0.01 else None
    return Doubling(tuple(players), elo, low, high, percent)
