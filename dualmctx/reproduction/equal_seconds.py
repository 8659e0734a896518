"""Finds the simulations with which self-play of AlphaZero takes as long as that of Dual."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dualmctx.reproduction.experiments import Algorithm
from dualmctx.reproduction.training_setup import Row

EQUAL = "alphazero-seconds"
"""AlphaZero with that number of simulations."""
MEASURED = ("alphazero-cost", "alphazero-best", "dual-best")
"""The algorithms whose self-play is timed to find that number."""


class EqualSeconds(NamedTuple):
    """The measurement.

    Attributes:
      simulations: simulations of AlphaZero that take the time of Dual.
      dual: seconds of self-play per step of Dual, the mean over its runs.
      budgets: the two budgets of AlphaZero that were timed, in simulations.
      seconds: seconds of self-play per step of each of them, the means over their runs.
    """

    simulations: int
    dual: float
    budgets: tuple[int, int]
    seconds: tuple[float, float]


def find_equal(
    algorithms: Mapping[str, Algorithm], rows: Mapping[str, Sequence[Row]]
) -> EqualSeconds:
    """Returns the budget with which self-play takes the time of Dual, over whole runs.

    Whole runs are timed because trees grow deeper as networks learn, and because the evaluations of
    Dual differ from those of AlphaZero. Untrained networks or a few positions would not represent
    training.

    Args:
      algorithms: the algorithms of `MEASURED`, by name.
      rows: the rows of the runs of each algorithm; the runs took turns.
    """
    low_seconds, high_seconds, dual = (
        float(np.mean([row["selfplay_seconds"] for row in rows[name]])) for name in MEASURED
    )
    low, high, _ = (algorithms[name].cost.simulations for name in MEASURED)
    budgets, seconds = (low, high), (low_seconds, high_seconds)
    return EqualSeconds(interpolate(budgets, seconds, dual), dual, budgets, seconds)


def interpolate(budgets: tuple[int, int], seconds: tuple[float, float], target: float) -> int:
    """Returns the budget for a time, from the line through two measurements.

    Args:
      budgets: the two measured budgets, the smaller one first.
      seconds: the time of each.
      target: the time to reach, in seconds.

    Returns:
      The budget, from 1 to twice the larger one; the smaller one if time does not grow with it.
    """
    (low, high), (low_seconds, high_seconds) = budgets, seconds
    per_simulation = (high_seconds - low_seconds) / max(high - low, 1)
    if per_simulation <= 0:
        return low
    return min(max(1, round(low + (target - low_seconds) / per_simulation)), 2 * high)
