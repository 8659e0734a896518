"""Elo ratings by maximum likelihood with draws, and intervals by resampling pairs of games."""

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from dualmctx.ratings.davidson import fit, reach, relative
from dualmctx.ratings.results import Results, games_by_side, games_of, resample

# A difference of 400 multiplies the odds of winning to losing by ten.
ELO = 400 / math.log(10)
# Strengths closer than this differ by rounding only.
_SAME = 1e-6
# Numbers of a table that are resampled at once.
_MAX_NUMBERS = 2**22


class Rating(NamedTuple):
    """A player's rating and its record.

    Attributes:
      name: the player.
      elo: relative to the anchor; `None` where the results do not bound it from both sides, as
        where the player has won all its games, or has met nobody who is compared with the anchor.
      low: lower end of the interval; `None` where it is open.
      high: upper end, likewise.
      wins: games.
      draws: games.
      losses: games.
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
      players: a row each, in the order of the results.
      anchor: the players whose mean is 0.
      draw_rate: the share of draws between equals, as fitted.
      level: of the intervals.
      num_resamples: that they come from.
      seed: of the resampling.
    """

    players: tuple[Rating, ...]
    anchor: tuple[str, ...]
    draw_rate: float
    level: float
    num_resamples: int
    seed: int


class _Count(Protocol):
    """Counts wins and draws `[..., P, P]` in pairs `[..., P, P, 3, 3]`."""

    def __call__(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


def rate(
    results: Results,
    *,
    anchor: str | None = None,
    level: float = 0.95,
    num_resamples: int = 1000,
    seed: int = 0,
) -> Ratings:
    """Rates players.

    400 Elo are a factor of ten in the odds of winning to losing, by the model of `davidson.fit`. An
    interval is that of the difference to the anchor, by percentiles over resampled pairs of games.
    It is open on the side on which so many resamples set no bound. Where a player's results have
    nothing to resample, as it has won all its games or everyone has drawn all, the rule of three
    finds an end: as if the player had lost, or won, ln(2 / (1 - level)) pairs more.

    Args:
      results: of the games.
      anchor: the player at 0; `None` for the mean of the players whom the results bound against one
        another, of the largest such set, without those whom too few resamples bound.
      level: of the intervals, in (0, 1).
      num_resamples: at least 1.
      seed: of the resampling.

    Returns:
      The ratings.

    Raises:
      ValueError: when there is no such player, in one line.

    Source: Newman 2023; Efron 1979 for the intervals; Hanley, Lippman-Hand 1983, "If nothing goes
    wrong, is everything all right?".
    """
    options = (anchor, level, num_resamples, seed)
    return _rate(results, results.players, games_of, 2, *options)


def rate_sides(
    results: Results,
    *,
    anchor: str | None = None,
    level: float = 0.95,
    num_resamples: int = 1000,
    seed: int = 0,
) -> Ratings:
    """Rates each player on each side, for games in which the sides differ.

    As `rate`, for 2 P players: `X (first)` and `X (second)` for each X. All games are across the
    sides. Once three players have all met, everybody is compared with everybody. Two players take
    games of each with itself; else the first side of the one is compared with the second of the
    other and with nothing else. `X (first)` less `X (second)` is what the side is worth to X.

    Args:
      results: of the games.
      anchor: see `rate`.
      level: likewise.
      num_resamples: likewise.
      seed: likewise.

    Returns:
      The ratings, all first sides before all second ones.

    Raises:
      ValueError: when there is no such player, in one line.
    """
    names = tuple(f"{name} ({side})" for side in ("first", "second") for name in results.players)
    options = (anchor, level, num_resamples, seed)
    return _rate(results, names, games_by_side, 1, *options)


def _rate(
    results: Results,
    names: tuple[str, ...],
    count: _Count,
    games_a_pair: int,
    anchor: str | None,
    level: float,
    num_resamples: int,
    seed: int,
) -> Ratings:
    """Rates whom `count` tells apart; a pair is so many games of one of them."""
    wins, draws = count(results.pairs)
    bounds = reach(wins, draws)
    strengths, draw_rate = fit(wins, draws)
    tables = map(count, _resample(results, num_resamples, seed))
    fitted, bounded = (
        np.concatenate(x) for x in zip(*((fit(*x)[0], reach(*x)) for x in tables), strict=True)
    )
    is_anchor = _find_anchor(names, bounds, bounded, anchor, (1 + level) / 2)
    elo = relative(strengths, bounds, is_anchor)
    low, high = _interval(relative(fitted, bounded, is_anchor), level)
    # Games that bear on what is asked: among those compared, or with those not yet.
    bears = (bounds & bounds.T) == np.isfinite(elo)[:, None]
    num_games = games_a_pair * math.log(2 / (1 - level))
    least, most = _ends(wins, draws, is_anchor, num_games * bears)
    # Nothing varies where all games of all players ended alike, which is not to say it could not.
    is_alone = is_anchor & (is_anchor.sum() == 1)
    is_same = np.isclose(low, high, rtol=0, atol=_SAME)
    is_silent = np.isfinite(elo) & is_same & ~is_alone
    low = np.select([is_silent | (elo == np.inf), np.isfinite(elo)], [least, low], -np.inf)
    high = np.select([is_silent | (elo == -np.inf), np.isfinite(elo)], [most, high], np.inf)
    scales = ([_finite(ELO * x) for x in column] for column in (elo, low, high))
    counts = (map(int, column) for column in (wins.sum(1), draws.sum(1), wins.sum(0)))
    return Ratings(
        players=tuple(Rating(*row) for row in zip(names, *scales, *counts, strict=True)),
        anchor=tuple(name for name, is_in in zip(names, is_anchor, strict=True) if is_in),
        draw_rate=float(draw_rate),
        level=level,
        num_resamples=num_resamples,
        seed=seed,
    )


def _find_anchor(
    names: tuple[str, ...],
    bounds: np.ndarray,
    resampled: np.ndarray,
    anchor: str | None,
    share: float,
) -> np.ndarray:
    """Finds the players whose mean is 0.

    Args:
      names: of P players.
      bounds: `[P, P]` as `reach` gives it.
      resampled: `[R, P, P]` likewise.
      anchor: see `rate`.
      share: of the resamples that must bound these players against one another, two of them apart:
        else one of whom nearly all is open would open the intervals of all others.

    Returns:
      `[P]` bool.
    """
    if anchor is not None:
        if anchor not in names:
            raise ValueError(f"no player {anchor!r} to be the anchor: there are {', '.join(names)}")
        return np.array(names) == anchor
    mutual = bounds & bounds.T
    found = np.flatnonzero(mutual[np.argmax(mutual.sum(1))])
    is_apart = ~(resampled & np.swapaxes(resampled, 1, 2))
    while len(found) > 2:
        among = is_apart[:, found][:, :, found]
        if 1 - among.any((1, 2)).mean() >= share:
            break
        found = np.delete(found, np.argmax(among.sum((0, 1))))
    return np.isin(np.arange(len(names)), found)


def _resample(results: Results, number: int, seed: int) -> Iterator[np.ndarray]:
    """Draws resamples, a part of them at a time as memory is limited."""
    rng = np.random.default_rng(seed)
    size = max(1, _MAX_NUMBERS // results.pairs.size)
    for start in range(0, number, size):
        yield resample(rng, results, min(size, number - start))


def _interval(resampled: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns both ends `[P]` of what most of `[R, P]` numbers lie in; NaN counts as anything."""
    tail = (1 - level) / 2 * (len(resampled) - 1)
    lows = np.sort(np.where(np.isnan(resampled), -np.inf, resampled), axis=0)
    highs = np.sort(np.where(np.isnan(resampled), np.inf, resampled), axis=0)
    return lows[math.floor(tail)], highs[-1 - math.floor(tail)]


def _ends(
    wins: np.ndarray, draws: np.ndarray, is_anchor: np.ndarray, num_games: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rates each player as if it had lost, or won, more games.

    Args:
      wins: `[P, P]`.
      draws: `[P, P]`.
      is_anchor: `[P]` bool.
      num_games: `[P, P]`, how many games more each player plays if all are against this opponent;
        they are shared out in proportion to the games that there are.

    Returns:
      `[P]` each, infinite where that bounds nothing.
    """
    games = wins + wins.T + draws
    played = games * (num_games > 0)
    shares = num_games * played / np.maximum(played.sum(1, keepdims=True), 1)
    # `[P, P, P]`: a table for each player, with games won against others in its row.
    won = np.eye(len(games))[:, :, None] * shares
    tables = wins + np.concatenate([np.swapaxes(won, 1, 2), won])
    drawn = np.broadcast_to(draws, tables.shape)
    rated = relative(fit(tables, drawn)[0], reach(tables, drawn), is_anchor)
    least, most = np.diagonal(rated.reshape(2, *games.shape), axis1=1, axis2=2)
    return least, most


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
