"""What a point of Elo costs: the same player at several budgets."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dualmctx.ratings.davidson import fit, reach
from dualmctx.ratings.elo import ELO
from dualmctx.ratings.results import Results, games_of, resample

# An interval narrower than this has no width but for rounding, in Elo.
_SAME = 1e-6


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
    results: Results,
    players: Sequence[str],
    costs: Sequence[float],
    *,
    level: float = 0.95,
    num_resamples: int = 1000,
    seed: int = 0,
) -> Doubling:
    """Measures what doubling a player's budget is worth.

    Args:
      results: of all players' games.
      players: the same one at several budgets.
      costs: of a move of each, positive and not all the same.
      level: of the interval, which comes from resampled pairs of games.
      num_resamples: how many.
      seed: of the resampling.

    Returns:
      The gain; its interval says what the results say, not whether the line is straight.
    """
    places = [results.players.index(name) for name in players]
    gaps = np.log2(costs) - np.mean(np.log2(costs))
    weights = gaps / np.sum(gaps**2)

    def slopes(pairs: np.ndarray) -> np.ndarray:
        """Returns `[...]`, NaN where the players' differences are open."""
        wins, draws = games_of(pairs)
        bounds = reach(wins, draws)[..., places, :][..., places]
        elo = ELO * fit(wins, draws)[0][..., places]
        return np.where(bounds.all((-1, -2)), elo @ weights, np.nan)

    rng = np.random.default_rng(seed)
    found = slopes(results.pairs)
    resampled = slopes(resample(rng, results, num_resamples))
    tail = math.floor((1 - level) / 2 * (num_resamples - 1))
    low = np.sort(np.nan_to_num(resampled, nan=-np.inf))[tail]
    high = np.sort(np.nan_to_num(resampled, nan=np.inf))[-1 - tail]
    # Where all games of all players ended alike nothing varies, which is not to say it could not.
    if abs(high - low) < _SAME:
        low, high = -np.inf, np.inf
    elo, low, high = (float(x) if np.isfinite(x) else None for x in (found, low, high))
    # Below that a point costs more than there are numbers for.
    percent = 100 * (2 ** (1 / elo) - 1) if elo is not None and elo > 0.01 else None
    return Doubling(tuple(players), elo, low, high, percent)
