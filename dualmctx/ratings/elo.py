"""Elo ratings by maximum likelihood with draws, with intervals that hold for few openings."""

import math
from typing import NamedTuple, Protocol

import numpy as np

from dualmctx.ratings.davidson import fit, reach, relative, robust_errors
from dualmctx.ratings.intervals import add_unseen, half_widths
from dualmctx.ratings.results import Results, games_by_side, games_of

# A difference of 400 multiplies the odds of winning to losing by ten.
ELO = 400 / math.log(10)


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
    """

    players: tuple[Rating, ...]
    anchor: tuple[str, ...]
    draw_rate: float
    level: float


class _Count(Protocol):
    """Counts wins and draws `[..., P, P]` in pairs `[..., P, P, 3, 3]`."""

    def __call__(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


def rate(results: Results, *, anchor: str | None = None, level: float = 0.95) -> Ratings:
    """Rates players.

    400 Elo are a factor of ten in the odds of winning to losing, by the model of `davidson.fit`. An
    interval is that of the difference to the anchor: Student's t with the standard error of
    `davidson.robust_errors`, to which games of one opening are one observation, whoever played
    them. Either end lies at least where Elo would be if the player had lost, or won,
    `intervals.unseen_pairs` pairs more against the opponents that it has met. Without that,
    intervals are too narrow where hardly any result differs, as where all games were won or drawn.
    An end is open where the results do not bound it, and both are with one opening.

    Args:
      results: of the games.
      anchor: the player at 0; `None` for the mean of the players whom the results bound against one
        another, of the largest such set, without those whose bound hangs on a single opening.
      level: of the intervals, in (0, 1).

    Returns:
      The ratings.

    Raises:
      ValueError: when there is no such player, in one line.

    Source: Newman 2023; the sources of `davidson.robust_errors` and `intervals`.
    `python -m benchmarks.coverage` measures how often the intervals hold.
    """
    return _rate(results, results.players, games_of, 2, anchor, level)


def rate_sides(results: Results, *, anchor: str | None = None, level: float = 0.95) -> Ratings:
    """Rates each player on each side, for games in which the sides differ.

    As `rate`, for 2 P players: `X (first)` and `X (second)` for each X. All games are across the
    sides. Once three players have all met, everybody is compared with everybody. Two players take
    games of each with itself; else the first side of the one is compared with the second of the
    other and with nothing else. `X (first)` less `X (second)` is what the side is worth to X.

    Args:
      results: of the games.
      anchor: see `rate`.
      level: likewise.

    Returns:
      The ratings, all first sides before all second ones.

    Raises:
      ValueError: when there is no such player, in one line.
    """
    names = tuple(f"{name} ({side})" for side in ("first", "second") for name in results.players)
    return _rate(results, names, games_by_side, 1, anchor, level)


def _rate(
    results: Results,
    names: tuple[str, ...],
    count: _Count,
    games_a_pair: int,
    anchor: str | None,
    level: float,
) -> Ratings:
    """Rates whom `count` tells apart; a pair is so many games of one of them."""
    wins_by_opening, draws_by_opening = count(results.by_opening)
    wins, draws = wins_by_opening.sum(0), draws_by_opening.sum(0)
    bounds = reach(wins, draws)
    strengths, draw_rate = fit(wins, draws)
    links = wins_by_opening + draws_by_opening
    is_anchor = _find_anchor(names, bounds, _hold_without_one(links), anchor)
    elo = relative(strengths, bounds, is_anchor)
    is_finite = np.isfinite(elo)
    contrasts = (np.eye(len(elo)) - is_anchor / is_anchor.sum()) * is_finite[:, None]
    found = robust_errors(strengths, float(draw_rate), wins_by_opening, draws_by_opening, contrasts)
    half = half_widths(*found, level)
    least, most = _ends(wins, draws, is_anchor, games_a_pair, level)
    # A player that is the anchor by itself has 0 by definition.
    is_alone = is_anchor & (is_anchor.sum() == 1)
    low = np.where(is_alone, 0, np.fmin(np.where(is_finite, elo - half, np.inf), least))
    high = np.where(is_alone, 0, np.fmax(np.where(is_finite, elo + half, -np.inf), most))
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


def _hold_without_one(links: np.ndarray) -> np.ndarray:
    """Tells which players bound which from below, even if any one opening is left out.

    Args:
      links: `[C, P, P]`, from each opening the games that i won or drew against j.

    Returns:
      `[P, P]` bool as `reach` gives it; of one opening, what that says.
    """
    total = links.sum(0)
    is_needed = (links == total) & (total > 0)
    rests = (total - links)[is_needed.any((1, 2))] if len(links) > 1 else links[:0]
    tables = np.concatenate([total[None], rests])
    return np.all(reach(tables, np.zeros_like(tables)), axis=0)


def _find_anchor(
    names: tuple[str, ...], bounds: np.ndarray, lasting: np.ndarray, anchor: str | None
) -> np.ndarray:
    """Finds the players whose mean is 0.

    Args:
      names: of P players.
      bounds: `[P, P]` as `reach` gives it.
      lasting: `[P, P]` likewise, whichever opening is left out. Whoever is bounded by one opening
        alone has a wide interval, and would widen those of all others.
      anchor: see `rate`.

    Returns:
      `[P]` bool.
    """
    if anchor is not None:
        if anchor not in names:
            raise ValueError(f"no player {anchor!r} to be the anchor: there are {', '.join(names)}")
        return np.array(names) == anchor
    mutual = bounds & bounds.T
    found = np.flatnonzero(mutual[np.argmax(mutual.sum(1))])
    is_apart = ~(lasting & lasting.T)
    while len(found) > 2 and (among := is_apart[np.ix_(found, found)]).any():
        found = np.delete(found, np.argmax(among.sum(0)))
    return np.isin(np.arange(len(names)), found)


def _ends(
    wins: np.ndarray, draws: np.ndarray, is_anchor: np.ndarray, games_a_pair: int, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Rates each player as if it had lost, or won, more games than it did.

    The games are against those with whom it is compared; where there are none, against all others.

    Args:
      wins: `[P, P]`.
      draws: `[P, P]`.
      is_anchor: `[P]` bool.
      games_a_pair: of one player.
      level: of the interval whose ends these are.

    Returns:
      `[P]` each, infinite where that bounds nothing.
    """
    games = wins + wins.T + draws
    bounds = reach(wins, draws)
    is_finite = np.all((bounds & bounds.T)[:, is_anchor], axis=1)
    played = games * ((bounds & bounds.T) == is_finite[:, None])
    tables = add_unseen(wins, played, games_a_pair, level)
    drawn = np.broadcast_to(draws, tables.shape)
    rated = relative(fit(tables, drawn)[0], reach(tables, drawn), is_anchor)
    least, most = np.diagonal(rated, axis1=1, axis2=2)
    return least, most


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
