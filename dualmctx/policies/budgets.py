"""Simulations scaled so that players cost the same a move: in blocks of the network or seconds."""

import math
from collections.abc import Callable
from typing import NamedTuple

Simulations = tuple[int, ...]
"""Of a move, a number for each tree."""
# Measurements of a player at most, and how far the next one goes from those before.
_MEASUREMENTS, _LONGEST_STEP = 4, 4.0


class Measured(NamedTuple):
    """What a move took.

    Attributes:
      simulations: a number for each tree.
      seconds: measured.
    """

    simulations: Simulations
    seconds: float


def split(total: int, shape: Simulations) -> Simulations:
    """Splits simulations over trees in proportion, by largest remainders.

    Trees that have simulations keep one at least if there are as many, and those without have none.

    Args:
      total: simulations of all trees, at least 1.
      shape: numbers of a proportion, not all 0.
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
            # A tree's only one stays.
            least = min(gap for gap, x in zip(gaps, found, strict=True) if x > 1)
            found[gaps.index(least)] -= 1
    return tuple(found)


def scale_to_cost(
    shape: Simulations, cost_of: Callable[[Simulations], float], target: float
) -> Simulations:
    """Finds how many simulations cost as near to the target as whole numbers come.

    Args:
      shape: in which proportion trees share them.
      cost_of: a move's cost, which grows with its simulations.
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
    # Shares are rounded, so a neighbour may come nearer.
    totals = range(max(least, low - 2), high + 3)
    return split(min(totals, key=lambda total: abs(cost(total) - target)), shape)


def scale_to_seconds(
    shape: Simulations, measure: Callable[[Simulations], float], target: float
) -> tuple[Measured, ...]:
    """Finds how many simulations take the same time, by measuring a few budgets.

    The first one is measured as it is, the next by proportion, and each further one where the line
    through the two nearest to the target meets it.

    Args:
      shape: the simulations to begin with.
      measure: seconds a move, compiling apart.
      target: the seconds, positive.

    Returns:
      All that was measured, the nearest to the target last.
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
    """Returns the simulations that should take the target, by what is known."""
    nearest = sorted(measured, key=lambda total: abs(measured[total].seconds - target))
    last = nearest[0]
    found = last * target / measured[last].seconds
    if len(nearest) > 1:
        other = nearest[1]
        slope = (measured[last].seconds - measured[other].seconds) / (last - other)
        if slope > 0:
            found = last + (target - measured[last].seconds) / slope
    return round(min(max(found, last / _LONGEST_STEP), last * _LONGEST_STEP))
