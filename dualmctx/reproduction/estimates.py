"""Means and ratios over seeds, with intervals."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

_LEVEL = 0.95
MIN_SEEDS = 3
"""The minimum number of seeds for an interval. With two, Student's t has one degree of freedom: an
interval is 12.7 standard errors wide on each side and says almost nothing."""


class Estimate(NamedTuple):
    """A mean over seeds.

    Attributes:
      mean: the mean of the values.
      low: lower end of the 95 % interval by Student's t. `None` for fewer than `MIN_SEEDS` values,
        and for equal values, which do not show how much values vary.
      high: upper end of the interval, or `None`.
      values: the value of each seed.
    """

    mean: float
    low: float | None
    high: float | None
    values: tuple[float, ...]


def estimate(
    values: Sequence[float], limits: tuple[float, float] = (-math.inf, math.inf)
) -> Estimate | None:
    """Estimates a mean from one value per seed; `None` without values.

    Args:
      values: one per seed.
      limits: smallest and largest possible mean, which bound the interval.
    """
    if not values:
        return None
    mean, number = float(np.mean(values)), len(values)
    if number < MIN_SEEDS or np.allclose(values, mean, rtol=1e-9, atol=1e-9):
        return Estimate(mean, None, None, tuple(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(number)
    half = float(scipy.stats.t.ppf((1 + _LEVEL) / 2, number - 1)) * error
    least, most = limits
    return Estimate(mean, max(mean - half, least), min(mean + half, most), tuple(values))


def estimate_ratio(ratios: Sequence[float]) -> Estimate | None:
    """Estimates a ratio by the geometric mean over seeds; `None` without values."""
    of_logarithms = estimate([math.log(x) for x in ratios])
    if of_logarithms is None:
        return None
    mean, low, high = (None if x is None else math.exp(x) for x in of_logarithms[:3])
    return Estimate(mean or 0.0, low, high, tuple(ratios))
