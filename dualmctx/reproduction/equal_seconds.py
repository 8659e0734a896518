"""How many simulations AlphaZero makes in the time of a move of Dual, by what training took."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dualmctx.reproduction.experiments import Algorithm
from dualmctx.reproduction.training_setup import Row

EQUAL = "alphazero-seconds"
"""The AlphaZero that takes as long as Dual."""
MEASURED = ("alphazero-cost", "alphazero-best", "dual-best")
"""Whose self-play says how many simulations these are."""


class EqualSeconds(NamedTuple):
    """What was measured.

    Attributes:
      simulations: of AlphaZero, as many as take the time of Dual.
      dual: seconds of self-play a step, of Dual; the mean over its runs.
      budgets: AlphaZero's that were measured.
      seconds: of each, likewise.
    """

    simulations: int
    dual: float
    budgets: tuple[int, int]
    seconds: tuple[float, float]


def find_equal(
    algorithms: Mapping[str, Algorithm], rows: Mapping[str, Sequence[Row]]
) -> EqualSeconds:
    """Finds the budget that takes the time of Dual in self-play, over whole runs.

    Trees grow deeper as networks learn, and Dual's evaluations are not AlphaZero's, so that
    untrained networks or a few positions say little of the time that training takes.

    Args:
      algorithms: those of `MEASURED`, by name.
      rows: of the runs of each, which took turns.
    """
    less, more, dual = (
        float(np.mean([row["selfplay_seconds"] for row in rows[name]])) for name in MEASURED
    )
    fewer, most, _ = (algorithms[name].cost.simulations for name in MEASURED)
    budgets = (fewer, most)
    return EqualSeconds(interpolate(budgets, (less, more), dual), dual, budgets, (less, more))


def interpolate(budgets: tuple[int, int], seconds: tuple[float, float], wanted: float) -> int:
    """Returns the budget that takes the wanted time, by the line through two measurements."""
    (less, more), (quick, slow) = budgets, seconds
    a_simulation = (slow - quick) / max(more - less, 1)
    if a_simulation <= 0:
        return less
    return min(max(1, round(less + (wanted - quick) / a_simulation)), 2 * more)
