"""The budget of a search, and budgets of equal cost, in network blocks or seconds per move."""

import dataclasses
import math
from collections.abc import Callable

Simulations = tuple[int, ...]
"""Simulations per move, one number for each tree."""
# The largest number of measurements of a player, and the largest factor between two successive
# budgets.
_MEASUREMENTS, _LONGEST_STEP = 4, 4.0


@dataclasses.dataclass(frozen=True)
class Measured:
    """The measured time of a move.

    Attributes:
      simulations: the simulations per move, one number for each tree.
      seconds: the measured time per move.
    """

    simulations: Simulations
    seconds: float


def split(total: int, shape: Simulations) -> Simulations:
    """Splits simulations among trees in proportion to their shares, by largest remainders.

    Each tree with a share above 0 gets at least one simulation, if there are enough. A tree with a
    share of 0 gets none.

    Args:
      total: the simulations of all trees together, at least 1.
      shape: the shares of the trees, not all 0.
    """
    if total <= sum(map(bool, shape)):
        rest = iter(range(total))
        return tuple(int(bool(x) and next(rest, None) is not None) for x in shape)
    shares = [total * x / sum(shape) for x in shape]
    found = [max(math.floor(share), int(x > 0)) for share, x in zip(shares, shape, strict=True)]
    while sum(found) != total:
        gaps = [share - x for share, x in zip(shares, found, strict=True)]
        if sum(found) < total:
            found[gaps.index(max(gaps))] += 1
        else:
            # The last simulation of a tree is not taken away.
            least = min(gap for gap, x in zip(gaps, found, strict=True) if x > 1)
            found[gaps.index(least)] -= 1
    return tuple(found)


def scale_to_cost(
    shape: Simulations, cost_of: Callable[[Simulations], float], target: float
) -> Simulations:
    """Finds the budget whose cost is closest to the target.

    Args:
      shape: the proportions in which the trees share the simulations.
      cost_of: returns the cost of a move, which increases with the simulations.
      target: the cost, positive.
    """

    def cost(total: int) -> float:
        return cost_of(split(total, shape))

    least = low = sum(map(bool, shape))
    high = 2 * low
    while cost(high) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) < target else (low, middle)
    # Shares are rounded, so a neighbouring total may be closer to the target.
    totals = range(max(least, low - 2), high + 3)
    return split(min(totals, key=lambda total: abs(cost(total) - target)), shape)


def scale_to_seconds(
    shape: Simulations, measure: Callable[[Simulations], float], target: float
) -> tuple[Measured, ...]:
    """Finds the budget whose time is closest to the target, by measurements.

    The first measurement is of `shape` itself. The second scales it in proportion to the target.
    Each further one is where the line through the two closest measurements meets the target.

    Args:
      shape: the first simulations to measure.
      measure: returns the seconds per move, without compilation.
      target: the seconds per move, positive.

    Returns:
      All measurements, the closest to the target last.
    """
    measured: dict[int, Measured] = {}
    total = sum(shape)
    while total not in measured and len(measured) < _MEASUREMENTS:
        simulations = split(total, shape)
        measured[total] = Measured(simulations, measure(simulations))
        total = max(sum(map(bool, shape)), _next_total(measured, target))

    def distance(row: Measured) -> float:
        return abs(math.log(row.seconds / target))

    return tuple(sorted(measured.values(), key=distance, reverse=True))


def _next_total(measured: dict[int, Measured], target: float) -> int:
    """Estimates the total number of simulations that takes the target time."""
    nearest = sorted(measured, key=lambda total: abs(measured[total].seconds - target))
    last = nearest[0]
    found = last * target / measured[last].seconds
    if len(nearest) > 1:
        other = nearest[1]
        slope = (measured[last].seconds - measured[other].seconds) / (last - other)
        if slope > 0:
            found = last + (target - measured[last].seconds) / slope
    return round(min(max(found, last / _LONGEST_STEP), last * _LONGEST_STEP))
