"""The errors of the value network on training positions and on held-out games."""

import numpy as np

from dualmctx.pipeline.parts import ValueFn
from dualmctx.pipeline.value.positions import ALL, ONE, ValueData, ValuePositions
from dualmctx.pipeline.value.regression import squared_errors
from dualmctx.types import Params

# The mean error of fewer positions says nothing.
_MIN_UNSEEN = 30


def measure_errors(
    value_fn: ValueFn, part: Params, data: ValueData, max_positions: int
) -> dict[str, float]:
    """Measures the mean squared errors of a value network against the results of games.

    Args:
      value_fn: the network.
      part: its parameters.
      data: the positions.
      max_positions: largest number of positions of each kind; at least that of the test positions.

    Returns:
      `value/train_mse` on the training positions, without symmetries; `value/test_mse` on the test
      positions, one per held-out game; `value/test_unseen_mse` on those that do not occur in
      training, if there are at least 30; and `value/test_games_mse` on all positions of held-out
      games. The same with `constant` as the name for the prediction of the mean training value.
    """

    def of_network(positions: ValuePositions) -> np.ndarray:
        arrays = (positions.observation[:max_positions], positions.value[:max_positions])
        return squared_errors(value_fn, part, *arrays)

    def of_constant(positions: ValuePositions) -> np.ndarray:
        return (positions.value - data.mean) ** 2

    found = {}
    for name, errors_of in (("value", of_network), ("constant", of_constant)):
        tested = errors_of(data.test[ONE])
        found[f"{name}/train_mse"] = float(errors_of(data.train).mean())
        found[f"{name}/test_mse"] = float(tested.mean())
        found[f"{name}/test_games_mse"] = float(errors_of(data.test[ALL]).mean())
        if data.is_unseen.sum() >= _MIN_UNSEEN:
            found[f"{name}/test_unseen_mse"] = float(tested[data.is_unseen].mean())
    return found
