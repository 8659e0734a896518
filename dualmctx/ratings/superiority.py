"""Differences in Elo between two players, and the likelihood that one of them is stronger."""

import functools
from collections.abc import Callable
from typing import NamedTuple

from dualmctx.ratings.elo import rate
from dualmctx.ratings.results import Results

LIMIT = 1e-4
"""A likelihood of superiority is at least this number, and at most 1 minus this number."""
# Bisections of the logarithm of the tail, from 0.5 to `LIMIT`: the error is below 0.3 %.
_BISECTIONS = 12


class Difference(NamedTuple):
    """The difference in Elo between a player and an opponent.

    Attributes:
      player: name of the player.
      opponent: name of the opponent.
      elo: Elo of the player minus Elo of the opponent; `None` if the results do not bound it.
      low: lower end of the interval; `None` if it is unbounded.
      high: upper end of the interval; `None` if it is unbounded.
    """

    player: str
    opponent: str
    elo: float | None
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        """Returns 1 or -1 if the interval has positive or negative numbers only, else 0."""
        is_positive = self.low is not None and self.low > 0
        return int(is_positive) - int(self.high is not None and self.high < 0)


def find_differences(
    results: Results, player: str, *, level: float = 0.95
) -> dict[str, Difference]:
    """Returns the differences of one player to all others, by name of the opponent.

    The intervals are those of `elo.rate` with the player as the anchor, with the opposite sign.

    Raises:
      ValueError: if there is no such player.
    """
    return {
        row.name: Difference(player, row.name, *map(_negate, (row.elo, row.high, row.low)))
        for row in rate(results, anchor=player, level=level).players
        if row.name != player
    }


def likelihoods_of_superiority(results: Results, player: str) -> dict[str, float]:
    """Returns the likelihood that a player is stronger than another, by name of the opponent.

    The likelihood of superiority is (1 + c) / 2 for a positive and (1 - c) / 2 for a negative
    difference, where c is the highest confidence level at which the interval of the difference
    excludes 0. It is 0.975 if the 95 % interval ends at 0, and 0.5 if no interval excludes 0, for
    example after a lead of a single game. It is the confidence that the difference is positive;
    without prior knowledge of the players, it can be read as the probability of that.

    Returns:
      Numbers from `LIMIT` to 1 - `LIMIT`.

    Raises:
      ValueError: if there is no such player.

    Source: Schweder, Hjort 2016, "Confidence, Likelihood, Probability", chapter 3, for the
    confidence of a hypothesis. Programs that match chess engines print the same quantity as LOS,
    for independent games: Φ((W - L) / √(W + L)) for W won and L lost games. Ours differs in that
    games from one opening are one observation, and in Student's t in place of Φ.
    """

    @functools.cache
    def differences(tail: float) -> dict[str, Difference]:
        return find_differences(results, player, level=1 - 2 * tail)

    return {
        name: _superiority(lambda tail, name=name: differences(tail)[name].sign)
        for name in results.players
        if name != player
    }


def _superiority(sign: Callable[[float], int]) -> float:
    """Finds the smallest tail of the interval at which it excludes 0; see `Difference.sign`.

    Intervals grow with a smaller tail.
    """
    if found := sign(LIMIT):
        return 1 - LIMIT if found > 0 else LIMIT
    excluded, included, side = 0.5, LIMIT, 0
    for _ in range(_BISECTIONS):
        middle = (excluded * included) ** 0.5
        found = sign(middle)
        excluded, included = (middle, included) if found else (excluded, middle)
        side = found or side
    return 0.5 + side * (0.5 - excluded)


def _negate(number: float | None) -> float | None:
    return None if number is None else -number
