"""Maximum-likelihood Elo with draws: ratings, differences, and the likelihood of superiority.

The intervals are valid even for few openings.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dualmctx.errors import UserError
from dualmctx.ratings.intervals import (
    add_unseen_pairs,
    bounded_from_below,
    fit,
    half_widths,
    relative_strengths,
    robust_errors,
)
from dualmctx.ratings.results import Results, count_wins_and_draws, count_wins_and_draws_by_side

# Elo per unit of strength: 400 Elo multiply the odds of winning over losing by ten.
ELO = 400 / math.log(10)
_LEVEL = 0.95
LIMIT = 1e-4
"""A likelihood of superiority is at least this number, and at most 1 minus this number."""
# Bisections of the logarithm of the tail, from 0.5 to `LIMIT`: the error is below 0.3 %.
_BISECTIONS = 12


class Rating(NamedTuple):
    """The rating and the record of a player.

    Attributes:
      name: name of the player.
      elo: Elo relative to the anchor. `None` if the results do not bound it from both sides, for
        example if the player won all games, or no chain of games connects it with the anchor.
      low: lower end of the interval; `None` if it is unbounded.
      high: upper end of the interval; `None` if it is unbounded.
      wins: number of games won.
      draws: number of games drawn.
      losses: number of games lost.
    """

    name: str
    elo: float | None
    low: float | None
    high: float | None
    wins: int
    draws: int
    losses: int


class Ratings(NamedTuple):
    """Ratings of all players.

    Attributes:
      players: one rating per player, in the order of the results.
      anchor: the players whose mean is 0.
      draw_rate: the fitted share of draws between equal players.
      level: confidence level of the intervals.
    """

    players: tuple[Rating, ...]
    anchor: tuple[str, ...]
    draw_rate: float
    level: float


class Doubling(NamedTuple):
    """The Elo gained by doubling the budget of a player, with an interval as in `Rating`.

    Attributes:
      players: names of the same player at several budgets.
      elo: the slope of a line through Elo over log2(cost).
      low: lower end of the interval.
      high: upper end of the interval.
      percent: additional cost of one point of Elo in percent, 100 (2^(1 / elo) - 1); `None` unless
        `elo` is above 0.01, because it would overflow.
    """

    players: tuple[str, ...]
    elo: float | None
    low: float | None
    high: float | None
    percent: float | None


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def rate(results: Results, *, anchor: str | None = None, level: float = _LEVEL) -> Ratings:
    """Rates players.

    400 Elo are a factor of ten in the odds of winning over losing in the model of `intervals.fit`.
    An interval is a Student's t interval of the difference to the anchor. Its standard error is
    that of `intervals.robust_errors`, which treats all games from one opening as one observation.
    The interval is then extended to include the Elo that would result if the player had lost, or
    won, `intervals.unseen_pairs` more pairs against the opponents that it has met. Without this
    extension, intervals are too narrow if nearly all results are equal. An end is unbounded if the
    results do not bound it; with one opening, both ends are unbounded.

    Args:
      results: results of the games.
      anchor: the player with Elo 0. `None` sets the mean of a group of players to 0: the largest
        set in which the results bound all differences, without players bounded by one opening only.
      level: confidence level of the intervals, in (0, 1).

    Returns:
      The ratings.

    Raises:
      ValueError: if the anchor is not a player.

    Source: Newman 2023; the sources in `intervals`.
    `tests/ratings/test_elo_coverage.py` measures the coverage of the intervals.
    """
    return _rate(results, results.players, count_wins_and_draws, 2, anchor, level)


def rate_sides(results: Results, *, anchor: str | None = None) -> Ratings:
    """Rates each player on each side, for games with asymmetric sides.

    The method is that of `rate` with 2 P players: `X (first)` and `X (second)` for each player X. A
    game is always between a first and a second side. If three players have all met, all ratings are
    comparable. With only two players, games of each player against itself are needed; otherwise the
    first side of one player is comparable only with the second side of the other. `X (first)` minus
    `X (second)` is the advantage of the first side for X.

    Args:
      results: results of the games.
      anchor: see `rate`; a name with its side, such as `X (first)`.

    Returns:
      The ratings, all first sides before all second sides.

    Raises:
      ValueError: if the anchor is not a player.
    """
    names = tuple(f"{name} ({side})" for side in ("first", "second") for name in results.players)
    return _rate(results, names, count_wins_and_draws_by_side, 1, anchor, _LEVEL)


def _rate(
    results: Results,
    names: tuple[str, ...],
    count: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    games_per_pair: int,
    anchor: str | None,
    level: float,
) -> Ratings:
    """Rates players by the wins and draws that `count` returns, with the games of one in a pair."""
    by_opening = count(results.by_opening)
    wins, draws = (x.sum(0) for x in by_opening)
    bounds = bounded_from_below(wins, draws)
    strengths, draw_rate = fit(wins, draws)
    is_anchor = _find_anchor(names, bounds, _robust_bounds(np.add(*by_opening)), anchor)
    elo = relative_strengths(strengths, bounds, is_anchor)
    is_finite = np.isfinite(elo)
    contrasts = (np.eye(len(elo)) - is_anchor / is_anchor.sum()) * is_finite[:, None]
    half = half_widths(*robust_errors(strengths, float(draw_rate), *by_opening, contrasts), level)
    least, most = _ends(wins, draws, is_anchor, games_per_pair, level)
    # The Elo of a single anchor is 0 by definition.
    is_single_anchor = is_anchor & (is_anchor.sum() == 1)
    low = np.fmin(np.where(is_finite, elo - half, np.inf), least)
    high = np.fmax(np.where(is_finite, elo + half, -np.inf), most)
    low, high = np.where(is_single_anchor, 0, low), np.where(is_single_anchor, 0, high)
    low = np.where(is_finite | (elo == np.inf), low, -np.inf)
    high = np.where(is_finite | (elo == -np.inf), high, np.inf)
    scales = ([_finite(ELO * x) for x in column] for column in (elo, low, high))
    counts = (map(int, column) for column in (wins.sum(1), draws.sum(1), wins.sum(0)))
    return Ratings(
        players=tuple(Rating(*row) for row in zip(names, *scales, *counts, strict=True)),
        anchor=tuple(name for name, is_in in zip(names, is_anchor, strict=True) if is_in),
        draw_rate=float(draw_rate),
        level=level,
    )


def _robust_bounds(links: np.ndarray) -> np.ndarray:
    """Returns the `[P, P]` bounds that hold even if any one of several openings is left out.

    `links` are `[C, P, P]` games from each opening that i won or drew against j.
    """
    total = links.sum(0)
    is_needed = (links == total) & (total > 0)
    rests = (total - links)[is_needed.any((1, 2))] if len(links) > 1 else links[:0]
    tables = np.concatenate([total[None], rests])
    return np.all(bounded_from_below(tables, np.zeros_like(tables)), axis=0)


def _find_anchor(
    names: tuple[str, ...], bounds: np.ndarray, robust_bounds: np.ndarray, anchor: str | None
) -> np.ndarray:
    """Chooses the players whose mean is 0; returns `[P]` bool.

    A player bounded by a single opening would widen all other intervals.
    """
    if anchor is not None:
        if anchor not in names:
            raise UserError(f"anchor is {anchor!r}; it must be one of {', '.join(names)}")
        return np.array(names) == anchor
    mutual = bounds & bounds.T
    found = np.flatnonzero(mutual[np.argmax(mutual.sum(1))])
    is_weakly_linked = ~(robust_bounds & robust_bounds.T)
    while len(found) > 2 and (among := is_weakly_linked[np.ix_(found, found)]).any():
        found = np.delete(found, np.argmax(among.sum(0)))
    return np.isin(np.arange(len(names)), found)


def _ends(
    wins: np.ndarray, draws: np.ndarray, is_anchor: np.ndarray, games_per_pair: int, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the `[P]` strengths if each player had lost, or won, additional games.

    These are against the opponents that are comparable with the player, or else against all.
    """
    games = wins + wins.T + draws
    bounds = bounded_from_below(wins, draws)
    is_finite = np.all((bounds & bounds.T)[:, is_anchor], axis=1)
    played = games * ((bounds & bounds.T) == is_finite[:, None])
    tables = add_unseen_pairs(wins, played, games_per_pair, level)
    all_draws = np.broadcast_to(draws, tables.shape)
    strengths = fit(tables, all_draws)[0]
    rated = relative_strengths(strengths, bounded_from_below(tables, all_draws), is_anchor)
    least, most = np.diagonal(rated, axis1=1, axis2=2)
    return least, most


def elo_per_doubling(results: Results, players: Sequence[str], costs: Sequence[float]) -> Doubling:
    """Estimates the Elo gained by doubling the budget of a player.

    The interval is computed as in `rate`: it includes the slopes that would result if one of
    the players had won or lost `intervals.unseen_pairs` more pairs. It does not account for
    deviations of Elo from a straight line.

    Args:
      results: results of all players.
      players: names of the same player at several budgets.
      costs: cost of a move of each of them, positive and not all equal.
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
    half = float(ELO * half_widths(errors, openings, _LEVEL)[0])
    tables = add_unseen_pairs(wins, (wins + wins.T + draws) * (bounds & bounds.T), 2, _LEVEL)[
        :, places
    ]
    unseen = ELO * fit(tables, np.broadcast_to(draws, tables.shape))[0] @ contrast
    low, high = min(elo - half, float(unseen.min())), max(elo + half, float(unseen.max()))
    # For smaller gains the percentage would overflow.
    percent = 100 * (2 ** (1 / elo) - 1) if elo > 0.01 else None
    return Doubling(tuple(players), elo, _finite(low), _finite(high), percent)


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
    results: Results, player: str, *, level: float = _LEVEL
) -> dict[str, Difference]:
    """Returns the differences of one player to all others, by name of the opponent.

    The intervals are those of `rate` with the player as the anchor, with the opposite sign.

    Raises:
      ValueError: if there is no such player.
    """
    return {
        row.name: Difference(player, row.name, *(x and -x for x in (row.elo, row.high, row.low)))
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
    differences = functools.cache(
        lambda tail: find_differences(results, player, level=1 - 2 * tail)
    )
    others = (name for name in results.players if name != player)
    return {x: _superiority(lambda tail, x=x: differences(tail)[x].sign) for x in others}


def _superiority(sign: Callable[[float], int]) -> float:
    """Returns the likelihood, from the sign of the interval at each tail; see `Difference`."""
    if found := sign(LIMIT):
        return 1 - LIMIT if found > 0 else LIMIT
    excluded, included, side = 0.5, LIMIT, 0
    for _ in range(_BISECTIONS):
        middle = (excluded * included) ** 0.5
        found = sign(middle)
        excluded, included = (middle, included) if found else (excluded, middle)
        side = found or side
    return 0.5 + side * (0.5 - excluded)
