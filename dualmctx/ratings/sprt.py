"""A sequential test of whether one player is stronger than another, on pairs of games."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

# Points of a pair, as shares of its two games.
SCORES = np.arange(5) / 4
# Stands for a pair that has not been seen, as in Fishtest.
_UNSEEN = 1e-3
_BISECTIONS = 60
# Elo that can be tested, either way.
_MOST = 2000


@dataclasses.dataclass(frozen=True)
class Sprt:
    """What is tested: elo0 against elo1, with the chances of error.

    Elo is that of the mean score s, a draw half a point: s = 1 / (1 + 10^(-elo / 400)). That of
    `ratings.elo` is of wins to losses alone: the same without draws, further from 0 with them.

    Raises:
      ValueError: when an option is out of range, in one line.
    """

    elo0: float = 0.0
    """The player's lead under H0, within 2,000 of 0."""
    elo1: float = 10.0
    """Its lead under H1, likewise; more than `elo0`."""
    alpha: float = 0.05
    """How often H1 may be accepted where the lead is `elo0`; in (0, 0.5)."""
    beta: float = 0.05
    """How often H0 may be accepted where the lead is `elo1`; in (0, 0.5)."""

    def __post_init__(self) -> None:
        """Checks the options."""
        if not self.elo0 < self.elo1:
            raise ValueError(f"elo1 is {self.elo1}; it must be above elo0, which is {self.elo0}")
        for name in ("elo0", "elo1"):
            # Far beyond, a score cannot be told from 0 or 1.
            if not -_MOST <= getattr(self, name) <= _MOST:
                value = getattr(self, name)
                raise ValueError(f"{name} is {value}; it must be from {-_MOST} to {_MOST}")
        for name in ("alpha", "beta"):
            if not 0 < getattr(self, name) < 0.5:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0, below 0.5")

    @property
    def lower(self) -> float:
        """Returns the log-likelihood ratio at which H0 is accepted."""
        return math.log(self.beta / (1 - self.alpha))

    @property
    def upper(self) -> float:
        """Returns the one at which H1 is."""
        return math.log((1 - self.beta) / self.alpha)


class Verdict(NamedTuple):
    """Where a test stands.

    Attributes:
      accepted: the hypothesis, `None` while the test goes on.
      log_likelihood_ratio: of H1 to H0.
      lower: where H0 is accepted.
      upper: where H1 is.
      num_pairs: of games.
      elo: of the player's mean score in them, on the scale of `Sprt`; `None` where it is open, as
        where all games were won.
    """

    accepted: Literal["H0", "H1"] | None
    log_likelihood_ratio: float
    lower: float
    upper: float
    num_pairs: int
    elo: float | None


def judge(test: Sprt, counts: np.ndarray) -> Verdict:
    """Says where a test stands, after any number of pairs.

    Args:
      test: what is tested.
      counts: `[5]` pairs of games in which the player scored 0, ½, 1, 1½ and 2 points.

    Returns:
      The verdict. It holds if it is the first one other than `None` in a series.

    Source: Wald 1945, "Sequential tests of statistical hypotheses".
    """
    counts = np.asarray(counts)
    ratio = float(log_likelihood_ratio(test, counts))
    accepted = "H1" if ratio >= test.upper else "H0" if ratio <= test.lower else None
    elo = score_elo(float(counts @ SCORES), int(counts.sum()))
    return Verdict(accepted, ratio, test.lower, test.upper, int(counts.sum()), elo)


def judge_in_turn(test: Sprt, results: Sequence[int]) -> Verdict:
    """Judges pairs of games one after the other; the first decision stands.

    So a verdict depends neither on how many pairs were played at once nor on how many there were
    to be.

    Args:
      test: what is tested.
      results: of the player in each pair, in the order of play: games won less games lost.

    Returns:
      The verdict, after the pair that decided or after all.
    """
    seen = np.eye(len(SCORES), dtype=int)[np.asarray(results, int) + 2].cumsum(0)
    ratios = log_likelihood_ratio(test, seen)
    decided = np.flatnonzero((ratios >= test.upper) | (ratios <= test.lower))
    counts = np.concatenate([np.zeros_like(seen, shape=(1, len(SCORES))), seen])
    return judge(test, counts[decided[0] + 1 if len(decided) else -1])


def log_likelihood_ratio(test: Sprt, counts: np.ndarray) -> np.ndarray:
    """Computes the generalised log-likelihood ratio of pairs of games.

    With p̂ the shares of the five kinds of pairs, and a their scores, H0 and H1 have the likeliest
    distributions of a given mean s:
        p_i = p̂_i / (1 + θ (a_i - s)),   θ such that Σ p_i a_i = s
    and the ratio is N Σ p̂_i log(p_i under H1 / p_i under H0). Games of a pair need not be
    independent, and how often they are drawn need not be known.

    Args:
      test: what is tested.
      counts: `[..., 5]` pairs in which the player scored 0, ½, 1, 1½ and 2 points.

    Returns:
      `[...]`, 0 where there are no pairs.

    Source: Van den Bergh, "A practical introduction to the GSPRT", as Fishtest has it.
    """
    number = counts.sum(-1)
    shares = np.maximum(counts, _UNSEEN)
    shares = shares / shares.sum(-1, keepdims=True)
    factors = (_log_factors(shares, _score(elo)) for elo in (test.elo0, test.elo1))
    of_elo0, of_elo1 = ((shares * x).sum(-1) for x in factors)
    return number * (of_elo0 - of_elo1)


def score_elo(points: float, most: float) -> float | None:
    """Returns the Elo of a score, `None` for none or all of the points there are."""
    return 400 * math.log10(points / (most - points)) if 0 < points < most else None


def _score(elo: float) -> float:
    return 1 / (1 + 10 ** (-elo / 400))


def _log_factors(shares: np.ndarray, mean: float) -> np.ndarray:
    """Returns `[..., 5]` log(p̂ / p), for the likeliest p with this mean."""
    gaps = SCORES - mean
    # Between these all p are positive. Σ p̂ gap / (1 + θ gap) falls from ∞ to -∞.
    low = np.full(shares.shape[:-1], -1 / gaps[-1])
    high = np.full(shares.shape[:-1], -1 / gaps[0])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        slope = (shares * gaps / (1 + middle[..., None] * gaps)).sum(-1)
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    return np.log1p(((low + high) / 2)[..., None] * gaps)
