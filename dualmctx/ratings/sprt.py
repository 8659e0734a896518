"""Sequential probability ratio test on pairs of games: is a player stronger than another?"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from dualmctx.checks import check

# The five scores of a pair: points divided by the two games.
SCORES = np.arange(5) / 4
# Count used in place of 0 for a score that has not occurred, as in Fishtest.
_UNSEEN = 1e-3
_BISECTIONS = 60
# Largest absolute Elo that can be tested.
_MAX_ELO = 2000


@dataclasses.dataclass(frozen=True)
class Sprt:
    """The hypotheses and the error rates of a test.

    Elo here is the Elo of the mean score s, with half a point for a draw:
    s = 1 / (1 + 10^(-elo / 400)). The Elo of `ratings.elo` is based on wins and losses alone. The
    two agree without draws; with draws, the Elo of `ratings.elo` is further from 0.

    Raises:
      ValueError: if an option is out of range.
    """

    elo0: float = 0.0
    """Lead of the player under H0, from -2,000 to 2,000."""
    elo1: float = 10.0
    """Lead of the player under H1, from -2,000 to 2,000; more than `elo0`."""
    alpha: float = 0.05
    """Probability of accepting H1 if the lead is `elo0`; in (0, 0.5)."""
    beta: float = 0.05
    """Probability of accepting H0 if the lead is `elo1`; in (0, 0.5)."""

    def __post_init__(self) -> None:
        """Checks the options."""
        remedy = f"above elo0, which is {self.elo0}"
        check(self.elo0 < self.elo1, "elo1", self.elo1, remedy)
        for name, value in (("elo0", self.elo0), ("elo1", self.elo1)):
            # The scores of larger values cannot be distinguished from 0 or 1.
            check(abs(value) <= _MAX_ELO, name, value, f"from {-_MAX_ELO} to {_MAX_ELO}")
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            check(0 < value < 0.5, name, value, "above 0 and below 0.5")

    @property
    def lower(self) -> float:
        """Returns the log-likelihood ratio at which H0 is accepted."""
        return math.log(self.beta / (1 - self.alpha))

    @property
    def upper(self) -> float:
        """Returns the log-likelihood ratio at which H1 is accepted."""
        return math.log((1 - self.beta) / self.alpha)


class Verdict(NamedTuple):
    """The state of a test.

    Attributes:
      accepted: the accepted hypothesis; `None` if the test is not decided.
      log_likelihood_ratio: log-likelihood ratio of H1 to H0.
      lower: the ratio at which H0 is accepted.
      upper: the ratio at which H1 is accepted.
      num_pairs: number of pairs of games.
      elo: Elo of the mean score of the player, on the scale of `Sprt`; `None` if it is infinite,
        for example if all games were won.
    """

    accepted: Literal["H0", "H1"] | None
    log_likelihood_ratio: float
    lower: float
    upper: float
    num_pairs: int
    elo: float | None


def judge(test: Sprt, counts: np.ndarray) -> Verdict:
    """Evaluates a test after any number of pairs.

    `counts` are `[5]` numbers of pairs in which the player scored 0, ½, 1, 1½ and 2 points. In a
    sequence of verdicts, the first one with a decision is valid.

    Source: Wald 1945, "Sequential tests of statistical hypotheses".
    """
    counts = np.asarray(counts)
    ratio = float(log_likelihood_ratio(test, counts))
    accepted = "H1" if ratio >= test.upper else "H0" if ratio <= test.lower else None
    elo = score_elo(float(counts @ SCORES), int(counts.sum()))
    return Verdict(accepted, ratio, test.lower, test.upper, int(counts.sum()), elo)


def judge_sequentially(test: Sprt, results: Sequence[int]) -> Verdict:
    """Evaluates a test after each pair of games; the first decision is final.

    The verdict therefore does not depend on the number of pairs played at once, or on the number
    of pairs planned.

    Args:
      test: the test.
      results: result of the player in each pair, in the order of play: games won minus games lost.

    Returns:
      The verdict after the first pair that decides the test, or after all pairs.
    """
    seen = np.eye(len(SCORES), dtype=int)[np.asarray(results, int) + 2].cumsum(0)
    ratios = log_likelihood_ratio(test, seen)
    decided = np.flatnonzero((ratios >= test.upper) | (ratios <= test.lower))
    counts = np.concatenate([np.zeros_like(seen, shape=(1, len(SCORES))), seen])
    return judge(test, counts[decided[0] + 1 if len(decided) else -1])


def log_likelihood_ratio(test: Sprt, counts: np.ndarray) -> np.ndarray:
    """Computes the generalised log-likelihood ratio of pairs of games.

    Let p̂ be the observed shares of the five scores a of a pair. The distribution under each
    hypothesis is the likeliest one whose mean is the score s of that hypothesis:
        p_i = p̂_i / (1 + θ (a_i - s)),   θ such that Σ p_i a_i = s
    The ratio is N Σ p̂_i log(p_i under H1 / p_i under H0). The two games of a pair need not be
    independent, and the share of draws need not be known.

    Args:
      test: the test.
      counts: `[..., 5]` numbers of pairs, as in `judge`.

    Returns:
      `[...]` ratios; 0 without pairs.

    Source: Van den Bergh, "A practical introduction to the GSPRT", as implemented in Fishtest.
    """
    number = counts.sum(-1)
    shares = np.maximum(counts, _UNSEEN)
    shares = shares / shares.sum(-1, keepdims=True)
    means = (1 / (1 + 10 ** (-elo / 400)) for elo in (test.elo0, test.elo1))
    factors = (_log_factors(shares, mean) for mean in means)
    under_elo0, under_elo1 = ((shares * x).sum(-1) for x in factors)
    return number * (under_elo0 - under_elo1)


def score_elo(points: float, most: float) -> float | None:
    """Returns the Elo of `points` out of `most`; `None` for a score of 0 or of `most`."""
    return 400 * math.log10(points / (most - points)) if 0 < points < most else None


def _log_factors(shares: np.ndarray, mean: float) -> np.ndarray:
    """Returns `[..., 5]` log(p̂ / p) for the likeliest distribution p with the given mean."""
    gaps = SCORES - mean
    # All p are positive in this interval, in which Σ p̂ gap / (1 + θ gap) falls from ∞ to -∞.
    low = np.full(shares.shape[:-1], -1 / gaps[-1])
    high = np.full(shares.shape[:-1], -1 / gaps[0])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        slope = (shares * gaps / (1 + middle[..., None] * gaps)).sum(-1)
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    return np.log1p(((low + high) / 2)[..., None] * gaps)
