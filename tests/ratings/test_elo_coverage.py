"""How often Elo intervals hold the true value in simulated games; docs/compare.md has full tables.

Results follow Davidson's model. If openings differ, the true Elo is that of a fit to infinitely
many openings.
"""

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from dualmctx.ratings.elo import ELO, rate
from dualmctx.ratings.intervals import fit
from dualmctx.ratings.results import Results
from pairwise import cover, product

GAPS, DRAW_RATES = (0.0, 100.0, 200.0, 400.0), (0.0, 0.3, 0.7)
LUCK = ("independent", "shared", "side")
# Standard deviations in Elo: of the side that an opening favours, and of a player in an opening.
SIDE, STYLE = 300.0, 100.0
STRENGTHS = np.array([0.0, 50.0, 100.0, 200.0, 300.0, 400.0])
SHARED_DRAW_RATE, MANY_OPENINGS = 0.5, 20_000


class Setting(NamedTuple):
    """Two players: pairs of games, the first player's lead in Elo, share of draws, kind of luck."""

    pairs: int
    gap: float
    draw_rate: float
    luck: str


def chances(lead: np.ndarray, draw_rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the probabilities of a win and of a draw, by Davidson's model."""
    strong, weak = np.exp(lead / ELO / 2), np.exp(-lead / ELO / 2)
    ratio = 2 * draw_rate / (1 - draw_rate)
    total = strong + weak + ratio
    return strong / total, ratio / total


def play(
    rng: np.random.Generator, lead: np.ndarray, draw_rate: float, luck: np.ndarray | None = None
) -> np.ndarray:
    """Simulates a game for each lead in Elo; returns 0, 1 or 2 for lost, drawn and won."""
    win, draw = chances(lead, draw_rate)
    luck = rng.random(lead.shape) if luck is None else luck
    return np.where(luck < win, 2, np.where(luck < win + draw, 1, 0))


def play_pairs(rng: np.random.Generator, setting: Setting, runs: int) -> np.ndarray:
    """Returns `[runs, 9]` counts of pairs; index 3 a + b is result a first and b second."""
    shape = (runs, setting.pairs)
    luck = rng.random(shape)
    side = rng.normal(0, SIDE, shape) if setting.luck == "side" else np.zeros(shape)
    first = play(rng, setting.gap + side, setting.draw_rate, luck)
    again = luck if setting.luck == "shared" else None
    second = play(rng, setting.gap - side, setting.draw_rate, again)
    return np.sum((3 * first + second)[..., None] == np.arange(9), axis=1)


def true_gap(setting: Setting) -> float:
    """Returns the difference in Elo of a fit to infinitely many pairs."""
    if setting.luck != "side":
        return setting.gap
    side = np.random.default_rng(0).normal(0, SIDE, MANY_OPENINGS)
    # Each sample with both signs, so that the sides have no mean lead.
    win, draw = (x.mean() for x in chances(setting.gap + np.append(side, -side), setting.draw_rate))
    return elo_gap(1e9 * np.array([[0, win], [1 - win - draw, 0]]), 1e9 * draw)


def elo_gap(wins: np.ndarray, draws: float) -> float:
    """Returns the first of two players' lead in Elo by a fit to `[2, 2]` wins."""
    strengths = fit(wins, draws * (1 - np.eye(2)))[0]
    return float(ELO * (strengths[0] - strengths[1]))


@functools.cache
def interval(counts: tuple[int, ...]) -> tuple[float, float]:
    """Returns the interval of `ratings.elo` for the first of two players, from counts of pairs."""
    kinds = np.repeat(np.arange(9), counts)
    by_opening = np.zeros((len(kinds), 2, 2, 3, 3), np.int16)
    by_opening[np.arange(len(kinds)), 0, 1, kinds // 3, kinds % 3] = 1
    row = rate(Results(("A", "B"), by_opening), anchor="B").players[0]
    return ends(row.low, row.high)


def ends(low: float | None, high: float | None) -> tuple[float, float]:
    """Returns the ends of an interval; an unbounded end is infinite."""
    return -math.inf if low is None else low, math.inf if high is None else high


def share_held(setting: Setting, runs: int) -> float:
    """Returns the share of intervals that hold the true difference."""
    counts = play_pairs(np.random.default_rng([0, setting.pairs]), setting, runs)
    low, high = np.transpose([interval(tuple(row.tolist())) for row in counts])
    truth = true_gap(setting)
    return float(np.mean((low <= truth + 1e-6) & (truth - 1e-6 <= high)))


def play_shared(rng: np.random.Generator, openings: int) -> Results:
    """Simulates a pair of games of every two players from each of the same openings."""
    players = len(STRENGTHS)
    strength = STRENGTHS + rng.normal(0, STYLE, (openings, players))
    side = rng.normal(0, SIDE, openings)
    counts = np.zeros((openings, players, players, 3, 3), np.int16)
    for i, j in itertools.combinations(range(players), 2):
        lead = strength[:, i] - strength[:, j]
        both = (play(rng, lead + sign * side, SHARED_DRAW_RATE) for sign in (1, -1))
        counts[(np.arange(openings), i, j, *both)] = 1
    return Results(tuple("ABCDEF"), counts)


def separate(results: Results) -> Results:
    """Returns the same results with an opening of its own for every pair of games."""
    counts = results.by_opening
    places = np.argwhere(counts)
    apart = np.zeros((len(places), *counts.shape[1:]), np.int16)
    apart[(np.arange(len(places)), *places[:, 1:].T)] = 1
    return Results(results.players, apart)


def true_strengths() -> np.ndarray:
    """Returns the Elo of a fit to infinitely many openings, with mean 0."""
    rng = np.random.default_rng(0)
    strength = STRENGTHS + rng.normal(0, STYLE, (MANY_OPENINGS, len(STRENGTHS)))
    side = rng.normal(0, SIDE, (MANY_OPENINGS, 1, 1))
    lead = strength[:, :, None] - strength[:, None, :]
    sides = (chances(lead + sign * side, SHARED_DRAW_RATE) for sign in (1, -1))
    win, draw = (np.mean([x.mean(0) for x in found], axis=0) for found in zip(*sides, strict=True))
    apart = 1e9 * (1 - np.eye(len(STRENGTHS)))
    return ELO * fit(win * apart, draw * apart)[0]


def test_intervals_of_eight_pairs_hold() -> None:
    """Percentiles of resampled pairs hold 52 % here."""
    assert share_held(Setting(8, 400.0, 0.3, "shared"), 200) >= 0.94


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [4, 100])
def test_intervals_of_two_players_hold(pairs: int) -> None:
    rows = cover(product(pairs=[pairs], gap=GAPS, draw_rate=DRAW_RATES, luck=LUCK))
    held = [share_held(Setting(**row), 100) for row in rows]
    assert np.mean(held) > 0.94
    # 0.88 is three standard errors below 0.95.
    assert min(held) >= 0.88


@pytest.mark.slow
def test_intervals_hold_if_players_share_openings() -> None:
    """Intervals that count every pair as an opening of its own hold less often."""
    rng, truth = np.random.default_rng(0), true_strengths()
    held: dict[str, list[bool]] = {"openings": [], "pairs": []}
    for _ in range(60):
        shared = play_shared(rng, 20)
        for name, results in (("openings", shared), ("pairs", separate(shared))):
            rows = rate(results, anchor="A").players[1:]
            for row, elo in zip(rows, truth[1:] - truth[0], strict=True):
                low, high = ends(row.low, row.high)
                held[name].append(low <= elo <= high)
    assert np.mean(held["openings"]) > max(0.9, np.mean(held["pairs"]))
