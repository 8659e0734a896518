"""The sequential test: its ratio against an optimiser, its error rates by simulation."""

import math
import random
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from dualmctx.ratings.elo import rate
from dualmctx.ratings.results import count_pairs
from dualmctx.ratings.sprt import SCORES, Sprt, judge, judge_sequentially, log_likelihood_ratio


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
    ("counts", "elos"), [([3, 1, 60, 1, 9], (-5, 20)), ([50, 20, 10, 5, 5], (-100, -50))]
)
def test_ratio_matches_numerical_maximum_likelihood(counts: list, elos: Any) -> None:
    found = log_likelihood_ratio(Sprt(*elos), np.array(counts))
    at_elo0, at_elo1 = (likeliest(np.array(counts, float), score(elo)) for elo in elos)
    # Both are within this tolerance of the exact optimum.
    assert found == pytest.approx(at_elo1 - at_elo0, abs=2e-3)


def test_ratio_of_extreme_counts_is_finite() -> None:
    # Draws alone are evidence for no lead.
    for place, accepted in ((0, "H0"), (2, "H0"), (4, "H1")):
        verdict = judge(Sprt(), 500 * np.eye(5, dtype=int)[place])
        assert verdict.accepted == accepted
        assert math.isfinite(verdict.log_likelihood_ratio)
        assert verdict.elo == (0 if place == 2 else None)
    verdict = judge(Sprt(), np.zeros(5))
    assert (verdict.accepted, verdict.log_likelihood_ratio, verdict.elo) == (None, 0, None)


def test_verdict_is_decided_at_walds_bounds() -> None:
    test = Sprt(0, 10, alpha=0.05, beta=0.1)
    assert (test.lower, test.upper) == pytest.approx((math.log(0.1 / 0.95), math.log(0.9 / 0.05)))
    for lead, expected in ((-60, "H0"), (5, None), (60, "H1")):
        verdict = judge(test, np.array([100 - lead, 200, 400, 200, 100 + lead]))
        ratio = verdict.log_likelihood_ratio
        assert (ratio >= test.upper, ratio <= test.lower) == (expected == "H1", expected == "H0")
        assert verdict[:5] == (expected, ratio, test.lower, test.upper, 1000)
        assert score(verdict.elo) == pytest.approx((500 + lead) / 1000)


def tilted(mean: float) -> np.ndarray:
    """Returns shares of the five scores with this mean; games of a pair are correlated."""
    base = np.array([0.2, 0.1, 0.4, 0.1, 0.2])

    def shares(tilt: float) -> np.ndarray:
        p = base * np.exp(tilt * SCORES)
        return p / p.sum()

    return shares(optimize.brentq(lambda x: shares(x) @ SCORES - mean, -5, 5))


@pytest.mark.slow
@pytest.mark.parametrize("is_h1", [False, True])
def test_error_rates_are_within_bounds(is_h1: bool) -> None:
    """The test is evaluated after each of up to 600 pairs."""
    test, number = Sprt(0, 50, alpha=0.05, beta=0.1), 250
    shares = tilted(score(test.elo1 if is_h1 else test.elo0))
    rng = np.random.default_rng(int(is_h1))
    counts = rng.multinomial(1, shares, size=(number, 600)).cumsum(1)
    ratio = log_likelihood_ratio(test, counts)
    is_out = (ratio >= test.upper) | (ratio <= test.lower)
    assert is_out.any(1).mean() > 0.995
    accepts_h1 = ratio[np.arange(number), is_out.argmax(1)] >= test.upper
    wrong = np.mean(accepts_h1 != is_h1)
    asked = test.beta if is_h1 else test.alpha
    # The upper limit allows three standard errors, the lower one the overshoot of the bounds.
    assert asked / 2 < wrong < asked + 3 * math.sqrt(asked * (1 - asked) / number)
    # A test of fixed length would need 190 pairs.
    assert 20 < (is_out.argmax(1) + 1).mean() < 150


def test_sequential_verdict_matches_counts_at_the_decision() -> None:
    """The first decision is final, even if later pairs would decide otherwise."""
    test, rng = Sprt(0, 20), random.Random(0)
    assert judge_sequentially(test, []) == judge(test, np.zeros(5, int))
    for results in ([rng.randint(-2, 2) for _ in range(50)], [2] * 10 + [0] * 50 + [-2] * 400):
        counts, expected = np.zeros(5, int), judge(test, np.zeros(5, int))
        for result in results:
            counts[result + 2] += 1
            expected = judge(test, counts)
            if expected.accepted:
                break
        assert judge_sequentially(test, results) == expected
    assert (expected.accepted, judge(test, counts * 0 + [400, 0, 50, 0, 10]).accepted) == (
        *("H1", "H0"),
    )


def test_score_elo_and_rating_elo_differ_with_draws() -> None:
    """The first row is the example of docs/compare.md; without draws both scales agree."""
    for won, drawn, lost, elos in ((30, 50, 20, (35, 70)), (9, 0, 1, (382, 382))):
        kinds = {(1, 1): won, (0, 0): drawn, (-1, -1): lost}
        pairs = [("A", "B", *kind) for kind, number in kinds.items() for _ in range(20 * number)]
        of_score = judge(Sprt(), 20 * np.array([lost, 0, drawn, 0, won])).elo
        rated, _ = rate(count_pairs("AB", pairs), anchor="B").players
        assert (of_score, rated.elo) == pytest.approx(elos, abs=1)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"elo0": 5, "elo1": 5}, "elo1 is 5; it must be above elo0, which is 5"),
        ({"elo1": math.nan}, "elo1 is nan; it must be above elo0, which is 0.0"),
        ({"elo1": math.inf}, "elo1 is inf; it must be from -2000 to 2000"),
        ({"beta": 0}, "beta is 0; it must be above 0 and below 0.5"),
    ],
)
def test_invalid_options_raise(options: dict, line: str) -> None:
    with pytest.raises(ValueError, match=f"^{line}$"):
        Sprt(**options)
