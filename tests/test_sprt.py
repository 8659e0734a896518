"""The sequential test: its ratio by a general optimiser, its error rates by simulation."""

import math
import random
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from dualmctx.ratings.elo import rate
from dualmctx.ratings.results import count_pairs
from dualmctx.ratings.sprt import SCORES, Sprt, count_scores, judge, log_likelihood_ratio


def score(elo: float) -> float:
    return 1 / (1 + 10 ** (-elo / 400))


def likeliest(counts: np.ndarray, mean: float) -> float:
    """Returns the largest log-likelihood of a distribution with this mean."""
    constraints = [
        {"type": "eq", "fun": lambda p: p.sum() - 1},
        {"type": "eq", "fun": lambda p: p @ SCORES - mean},
    ]
    found = optimize.minimize(
        lambda p: -counts @ np.log(p),
        np.full(5, 0.2),
        jac=lambda p: -counts / p,
        bounds=[(1e-9, 1)] * 5,
        constraints=constraints,
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert found.success
    return -found.fun


@pytest.mark.parametrize(
    ("counts", "elos"),
    [
        ([10, 20, 40, 25, 12], (0, 10)),
        ([3, 1, 60, 1, 9], (-5, 20)),
        ([50, 20, 10, 5, 5], (-100, -50)),
    ],
)
def test_the_ratio_is_that_of_the_likeliest_distributions(counts: list, elos: Any) -> None:
    found = log_likelihood_ratio(Sprt(*elos), np.array(counts))
    at_elo0, at_elo1 = (likeliest(np.array(counts, float), score(elo)) for elo in elos)
    # Both are far from the exact optimum by less than this.
    assert found == pytest.approx(at_elo1 - at_elo0, abs=2e-3)


def test_the_ratio_of_the_other_player_is_the_opposite() -> None:
    counts = np.random.default_rng(0).integers(0, 40, (50, 5))
    one = log_likelihood_ratio(Sprt(-7, 12), counts)
    other = log_likelihood_ratio(Sprt(-12, 7), counts[:, ::-1])
    np.testing.assert_allclose(one, -other, atol=1e-9)
    # All at once are as each by itself, and twice as many say twice as much.
    assert log_likelihood_ratio(Sprt(-7, 12), counts[7]) == pytest.approx(one[7])
    many = counts[:1] + 10
    double = log_likelihood_ratio(Sprt(), 2 * many)
    assert double == pytest.approx(2 * log_likelihood_ratio(Sprt(), many))


def test_extreme_counts_have_a_ratio() -> None:
    assert judge(Sprt(), np.zeros(5, int)).accepted is None
    assert judge(Sprt(), np.zeros(5, int)).log_likelihood_ratio == 0
    assert judge(Sprt(), np.zeros(5, int)).elo is None
    assert judge(Sprt(), np.array([0, 0, 0, 0, 500])).accepted == "H1"
    assert judge(Sprt(), np.array([0, 0, 0, 0, 500])).elo is None
    assert judge(Sprt(), np.array([500, 0, 0, 0, 0])).accepted == "H0"
    # Nothing but draws says that there is no lead.
    assert judge(Sprt(), np.array([0, 0, 500, 0, 0])).accepted == "H0"


def test_a_verdict_holds_beyond_walds_bounds() -> None:
    test = Sprt(0, 10, alpha=0.05, beta=0.1)
    assert (test.lower, test.upper) == pytest.approx((math.log(0.1 / 0.95), math.log(0.9 / 0.05)))
    seen = set()
    for lead in range(-60, 61, 5):
        verdict = judge(test, np.array([100 - lead, 200, 400, 200, 100 + lead]))
        ratio = verdict.log_likelihood_ratio
        expected = "H1" if ratio >= test.upper else "H0" if ratio <= test.lower else None
        assert verdict[:5] == (expected, ratio, test.lower, test.upper, 1000)
        assert score(verdict.elo) == pytest.approx((500 + lead) / 1000)
        seen.add(expected)
    assert seen == {"H0", "H1", None}


def tilted(mean: float) -> np.ndarray:
    """Returns shares of the five kinds of pairs with this mean; games of a pair are alike."""
    base = np.array([0.2, 0.1, 0.4, 0.1, 0.2])

    def shares(tilt: float) -> np.ndarray:
        p = base * np.exp(tilt * SCORES)
        return p / p.sum()

    return shares(optimize.brentq(lambda x: shares(x) @ SCORES - mean, -5, 5))


@pytest.mark.parametrize("is_h1", [False, True])
def test_errors_are_as_rare_as_asked_for(is_h1: bool) -> None:
    """Looked at after every 10 pairs, up to 1500 of them."""
    test, number = Sprt(0, 50, alpha=0.05, beta=0.1), 500
    shares = tilted(score(test.elo1 if is_h1 else test.elo0))
    rng = np.random.default_rng(int(is_h1))
    counts = rng.multinomial(10, shares, size=(number, 150)).cumsum(1)
    ratio = log_likelihood_ratio(test, counts)
    is_out = (ratio >= test.upper) | (ratio <= test.lower)
    assert is_out.any(1).mean() > 0.995
    accepts_h1 = ratio[np.arange(number), is_out.argmax(1)] >= test.upper
    wrong = np.mean(accepts_h1 != is_h1)
    asked = test.beta if is_h1 else test.alpha
    # Three standard errors above; below, as much is lost at most by looking seldom.
    assert asked / 4 < wrong < asked + 3 * math.sqrt(asked * (1 - asked) / number)
    # It stops before a test of a fixed length would, 190 pairs.
    assert 20 < 10 * (is_out.argmax(1) + 1).mean() < 150


def test_pairs_are_counted_by_points() -> None:
    rng = random.Random(0)
    pairs = [
        (*rng.choice(("AB", "BA", "AC", "CB")), rng.choice((-1, 0, 1)), rng.choice((-1, 0, 1)))
        for _ in range(200)
    ]
    expected = [0] * 5
    for one, other, first, second in pairs:
        if {one, other} == {"A", "B"}:
            expected[(first + second) * (1 if one == "A" else -1) + 2] += 1
    results = count_pairs("ABC", pairs)
    assert count_scores(results, "A", "B").tolist() == expected
    assert count_scores(results, "B", "A").tolist() == expected[::-1]
    with pytest.raises(ValueError, match=r"^no player 'X': there are A, B, C$"):
        count_scores(results, "A", "X")


@pytest.mark.parametrize(
    ("won", "drawn", "lost", "elos"), [(30, 50, 20, (35, 70)), (9, 0, 1, 2 * (382,))]
)
def test_elo_of_the_score_is_another_scale_than_that_of_ratings(
    won: int, drawn: int, lost: int, elos: tuple[float, float]
) -> None:
    """The first row stands in docs/compare.md; without draws both are the same."""
    kinds = {(1, 1): won, (0, 0): drawn, (-1, -1): lost}
    pairs = [("A", "B", *kind) for kind, number in kinds.items() for _ in range(20 * number)]
    results = count_pairs("AB", pairs)
    of_score = judge(Sprt(), count_scores(results, "A", "B")).elo
    rated, _ = rate(results, anchor="B", num_resamples=1).players
    assert (of_score, rated.elo) == pytest.approx(elos, abs=1)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"elo0": 5, "elo1": 5}, "elo1 is 5; it must be above elo0, which is 5"),
        ({"elo1": math.nan}, "elo1 is nan; it must be above elo0, which is 0.0"),
        ({"alpha": 0.5}, "alpha is 0.5; it must be above 0, below 0.5"),
        ({"beta": 0}, "beta is 0; it must be above 0, below 0.5"),
    ],
)
def test_bad_options_are_refused(options: dict, line: str) -> None:
    with pytest.raises(ValueError, match=f"^{line}$"):
        Sprt(**options)
