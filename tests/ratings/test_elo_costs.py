"""Elo per doubling of the cost of a player."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from dualmctx.ratings.elo import elo_per_doubling, rate
from dualmctx.ratings.results import count_pairs


def test_a_doubling_is_the_least_squares_line() -> None:
    rng = np.random.default_rng(0)
    names, costs = tuple("abcd"), (100.0, 10.0, 40.0, 20.0)
    pairs = [
        (one, other, *rng.integers(-1, 2, 2).tolist())
        for one, other in itertools.combinations(names, 2)
        for _ in range(30)
    ]
    results = count_pairs(names, pairs)
    elo = {row.name: row.elo for row in rate(results).players}
    chosen = ("d", "a", "c")
    x = [math.log2(costs[names.index(name)]) for name in chosen]
    expected = np.polyfit(x, [elo[name] for name in chosen], 1)[0]
    found = elo_per_doubling(results, chosen, [costs[names.index(name)] for name in chosen])
    assert found.elo == pytest.approx(expected)


def test_elo_per_doubling_may_be_unbounded() -> None:
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
