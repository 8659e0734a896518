"""Differences between players, the likelihood of superiority, and Elo per doubling of a cost."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import special

from dualmctx.ratings.elo import (
    ELO,
    LIMIT,
    elo_per_doubling,
    find_differences,
    likelihoods_of_superiority,
    rate,
)
from dualmctx.ratings.results import Results, count_pairs


def simulate(rng: np.random.Generator, lead: float, pairs: int, draw_ratio: float) -> Results:
    """Plays pairs of independent games of A and B by Davidson's model, with a lead of A in Elo."""
    weights = np.exp([-lead / ELO / 2, 0, lead / ELO / 2]) * [1, draw_ratio, 1]
    games = rng.choice([-1, 0, 1], (pairs, 2), p=weights / weights.sum())
    return count_pairs("AB", [("A", "B", *pair) for pair in games.tolist()])


def superiority(results: Results) -> float:
    return likelihoods_of_superiority(results, "A")["B"]


def played(players: str) -> tuple[Results, dict[str, Any]]:
    """Returns random results of pairs of games of every two players, and their Elo."""
    rng = np.random.default_rng(0)
    pairs = [
        (one, other, *rng.integers(-1, 2, 2).tolist())
        for one, other in itertools.combinations(players, 2)
        for _ in range(30)
    ]
    results = count_pairs(players, pairs)
    return results, {row.name: row.elo for row in rate(results).players}


def test_differences_are_ratings_relative_to_each_opponent() -> None:
    results, elo = played("ABC")
    found = find_differences(results, "B")
    assert list(found) == ["A", "C"]
    for name, row in found.items():
        assert (row.player, row.opponent) == ("B", name)
        assert row.elo == pytest.approx(elo["B"] - elo[name])
        assert row.low < row.elo < row.high
        back = find_differences(results, name)["B"]
        assert (back.elo, back.low, back.high) == pytest.approx((-row.elo, -row.high, -row.low))
        assert back.sign == -row.sign


def test_the_likelihood_of_equal_results() -> None:
    """Equal players win one half of the pairs: n won pairs in a row have probability 1 / 2^n."""
    for pairs in (2, 9):
        results = count_pairs("AB", [("A", "B", 1, 1)] * pairs)
        assert superiority(results) == pytest.approx(1 - 0.5**pairs, rel=3e-3)
        assert likelihoods_of_superiority(results, "B")["A"] == pytest.approx(0.5**pairs, rel=0.02)
    for pair in ((0, 0), (1, -1)):
        assert superiority(count_pairs("AB", [("A", "B", *pair)] * 30)) == 0.5
    # One opening says nothing about the next one.
    assert superiority(count_pairs("AB", [("A", "B", 1, 0)] * 30, [0] * 30)) == 0.5


def test_many_independent_games_have_the_likelihood_of_the_normal_formula() -> None:
    rng = np.random.default_rng(3)
    for lead, ratio in ((10, 0.5), (20, 2.0), (-15, 1.0)):
        results = simulate(rng, lead, 400, ratio)
        row = rate(results).players[0]
        expected = special.ndtr((row.wins - row.losses) / math.sqrt(row.wins + row.losses))
        assert 0.02 < abs(expected - 0.5) < 0.4999
        assert superiority(results) == pytest.approx(expected, abs=0.03)


def test_the_likelihood_agrees_with_the_interval() -> None:
    rng = np.random.default_rng(1)
    seen = set()
    for lead in (-150, -40, 0, 40, 150, 800):
        results = simulate(rng, lead, 25, 1.0)
        found = superiority(results)
        assert LIMIT <= found <= 1 - LIMIT
        assert likelihoods_of_superiority(results, "B")["A"] == pytest.approx(1 - found)
        for level in (0.5, 0.8, 0.95, 0.99):
            sign = find_differences(results, "A", level=level)["B"].sign
            seen.add(sign)
            if sign:
                assert sign * (found - 0.5) >= level / 2 - 2e-3
            else:
                assert abs(found - 0.5) <= level / 2 + 2e-3
    assert seen == {-1, 0, 1}


@pytest.mark.slow
def test_the_likelihood_is_the_share_of_superior_players() -> None:
    """Leads from a wide range: of players with a likelihood near p, a share near p is stronger."""
    rng = np.random.default_rng(4)
    leads = rng.uniform(-150, 150, 300)
    found = np.array([superiority(simulate(rng, lead, 20, 0.7)) for lead in leads])
    for low, high in itertools.pairwise((0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)):
        chosen = (low <= found) & (found < high)
        share, mean = (leads[chosen] > 0).mean(), found[chosen].mean()
        error = math.sqrt(0.25 / chosen.sum())
        assert share == pytest.approx(mean, abs=3 * error)


def test_a_doubling_is_the_least_squares_line() -> None:
    results, elo = played("abcd")
    chosen, costs = "dac", [20.0, 100.0, 40.0]
    expected = np.polyfit(np.log2(costs), [elo[name] for name in chosen], 1)[0]
    assert elo_per_doubling(results, chosen, costs).elo == pytest.approx(expected)
    results = count_pairs("ab", [("a", "b", 1, 1)] * 20)
    found = elo_per_doubling(results, "ab", [2.0, 1.0])
    assert found[1:] == (None, None, None, None)
    # One opening says nothing of the next one.
    results = count_pairs("ab", [("a", "b", 1, 0)] * 20, [0] * 20)
    found = elo_per_doubling(results, "ab", [2.0, 1.0])
    assert found.elo is not None
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize("pairs", [[(1, 1)] * 20 + [(0, 1)], [(1, -1)] * 20])
def test_a_doubling_has_a_wide_interval_where_hardly_anything_varies(pairs: Any) -> None:
    """A player who has lost no game of 42 may yet lose a tenth of them; 20 pairs may be luck."""
    results = count_pairs("ab", [("a", "b", *pair) for pair in pairs])
    found = elo_per_doubling(results, "ab", [2.0, 1.0])
    assert found.low < found.elo - 50
    assert found.high > found.elo + 50
    assert found.low < 400 * math.log10(0.9 / 0.1)
