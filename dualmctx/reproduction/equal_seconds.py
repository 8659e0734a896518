"""The number of simulations with which self-play of AlphaZero takes as long as that of Dual."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dualmctx.reproduction.experiments import Algorithm
from dualmctx.reproduction.training_setup import Row

EQUAL = "alphazero-seconds"
"""AlphaZero with that number of simulations."""
MEASURED = ("alphazero-cost", "alphazero-best", "dual-best")
"""The algorithms whose self-play is timed to find it."""


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
    Dual differ from those of AlphaZero. Untrained networks or a few positions would be no measure
    of the time of training.

    Args:
      algorithms: the algorithms of `MEASURED`, by name.
      rows: the rows of the runs of each, which took turns.
    """
    less, more, dual = (
        float(np.mean([row["selfplay_seconds"] for row in rows[name]])) for name in MEASURED
    )
    fewer, most, _ = (algorithms[name].cost.simulations for name in MEASURED)
    budgets = (fewer, most)
    return EqualSeconds(interpolate(budgets, (less, more), dual), dual, budgets, (less, more))


def interpolate(budgets: tuple[int, int], seconds: tuple[float, float], wanted: float) -> int:
    """Returns the budget for a time, from the line through two measurements.

    Args:
      budgets: the two measured budgets, the smaller one first.
      seconds: the time of each.
      wanted: the time to reach, in seconds.

    Returns:
      From 1 to twice the larger budget. The smaller budget if time does not grow with the budget.
    """
    (less, more), (quick, slow) = budgets, seconds
    per_simulation = (slow - quick) / max(more - less, 1)
    if per_simulation <= 0:
        return less
    return min(max(1, round(less + (wanted - quick) / per_simulation)), 2 * more)
