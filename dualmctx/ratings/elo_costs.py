"""What a point of Elo costs: the same player at several budgets."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dualmctx.ratings.davidson import fit, reach, robust_errors
from dualmctx.ratings.elo import ELO
from dualmctx.ratings.intervals import add_unseen, half_widths
from dualmctx.ratings.results import Results, games_of


class Doubling(NamedTuple):
    """What doubling a player's budget is worth.

    Attributes:
      players: the same one at several budgets.
      elo: gained by twice the cost, as the slope of a line through Elo over log2(cost); `None`
        where the results leave it open.
      low: lower end of the interval; `None` where it is open.
      high: upper end, likewise.
      percent: how many percent more a point of Elo costs, 100 (2^(1 / elo) - 1); `None` unless
        `elo` is positive.
    """

    players: tuple[str, ...]
    elo: float | None
    low: float | None
    high: float | None
    percent: float | None


def elo_a_doubling(
    results: Results, players: Sequence[str], costs: Sequence[float], *, level: float = 0.95
) -> Doubling:
    """Measures what doubling a player's budget is worth.

    Args:
      results: of all players' games.
      players: the same one at several budgets.
      costs: of a move of each, positive and not all the same.
      level: of the interval, which is made as in `elo.rate`: an end lies at least where the slope
        would be if one of the players had won or lost `intervals.unseen_pairs` pairs more.

    Returns:
      The gain; its interval says what the results say, not whether the line is straight.
    """
    places = [results.players.index(name) for name in players]
    gaps = np.log2(costs) - np.mean(np.log2(costs))
    contrast = np.zeros(len(results.players))
    contrast[places] = gaps / np.sum(gaps**2)
    by_opening = games_of(results.by_opening)
    wins, draws = (x.sum(0) for x in by_opening)
    strengths, draw_rate = fit(wins, draws)
    bounds = reach(wins, draws)
    if not bounds[np.ix_(places, places)].all():
        return Doubling(tuple(players), None, None, None, None)
    errors, openings = robust_errors(strengths, float(draw_rate), *by_opening, contrast[None])
    elo = float(ELO * contrast @ strengths)
    half = float(ELO * half_widths(errors, openings, level)[0])
    tables = add_unseen(wins, (wins + wins.T + draws) * (bounds & bounds.T), 2, level)[:, places]
    unseen = ELO * fit(tables, np.broadcast_to(draws, tables.shape))[0] @ contrast
    low, high = min(elo - half, float(unseen.min())), max(elo + half, float(unseen.max()))
    low, high = (None if math.isinf(x) else x for x in (low, high))
    # Below that a point costs more than there are numbers for.
    percent = 100 * (2 ** (1 / elo) - 1) if elo > 0.01 else None
    return Doubling(tuple(players), elo, low, high, percent)
