"""The errors of value networks on training positions, on held-out games, and against exact play."""

import numpy as np

from dualmctx.pipeline.parts import ValueFn
from dualmctx.pipeline.value.positions import ALL, ONE, ValueData, ValuePositions
from dualmctx.pipeline.value.regression import squared_errors
from dualmctx.types import Params

# The mean error of fewer positions says nothing.
_MIN_UNSEEN = 30


def measure_errors(
    value_fn: ValueFn, parts: dict[str, Params], data: ValueData, max_positions: int
) -> dict[str, float]:
    """Measures the mean squared errors of value networks against the results of games.

    Args:
      value_fn: the network.
      parts: the parameters of each network, by the positions that it learned, `ONE` or `ALL`.
      data: the positions.
      max_positions: largest number of positions of each kind; at least that of the test positions.

    Returns:
      For each network `NAME/train_mse` on its own training positions, without symmetries;
      `NAME/test_mse` on the common test positions, one per held-out game; `NAME/test_unseen_mse` on
      those that occur in no training set, if there are at least 30; and `NAME/test_games_mse` on
      all positions of held-out games. The same with `constant` as the name for the prediction of
      the mean training value. With two networks, `difference/test_mse`, the test error of `ALL`
      less that of `ONE`, and `difference/test_margin`, the half width of its 95 % interval. The
      interval is that of these two networks on other positions; other seeds of the training differ
      by more.
    """
    found, errors = _errors_of_constant(data), {}
    for name, part in parts.items():

        def squared(positions: ValuePositions, part: Params = part) -> np.ndarray:
            arrays = (positions.observation[:max_positions], positions.value[:max_positions])
            return squared_errors(value_fn, part, *arrays)

        found[f"{name}/train_mse"] = float(squared(data.train[name]).mean())
        found[f"{name}/test_games_mse"] = float(squared(data.test[ALL]).mean())
        errors[name] = squared(data.test[ONE])
        found |= _test_entries(name, errors[name], data.is_unseen)
    if len(errors) == 2:
        difference = errors[ALL] - errors[ONE]
        found["difference/test_mse"] = float(difference.mean())
        found["difference/test_margin"] = _margin(
            difference, data.test[ONE].game_keys[:max_positions]
        )
    return found


def _margin(values: np.ndarray, game_keys: np.ndarray) -> float:
    """Returns the half width of the 95 % interval of a mean, with equal games as one sample.

    Equal games are in the same split, so they are not independent samples of it.
    """
    _, group = np.unique(game_keys, return_inverse=True)
    sums = np.bincount(group, values - values.mean())
    return 1.96 * float(np.linalg.norm(sums)) / len(values)


def _errors_of_constant(data: ValueData) -> dict[str, float]:
    """Returns the entries of the prediction of the mean training value."""
    entries = {
        "constant/train_mse": _mean_error(data.train[ONE], data.mean),
        "constant/test_games_mse": _mean_error(data.test[ALL], data.mean),
    }
    return entries | _test_entries(
        "constant", (data.test[ONE].value - data.mean) ** 2, data.is_unseen
    )


def _mean_error(positions: ValuePositions, prediction: float) -> float:
    return float(np.mean((positions.value - prediction) ** 2))


def _test_entries(name: str, errors: np.ndarray, is_unseen: np.ndarray) -> dict[str, float]:
    entries = {f"{name}/test_mse": float(errors.mean())}
    if is_unseen.sum() >= _MIN_UNSEEN:
        entries[f"{name}/test_unseen_mse"] = float(errors[is_unseen].mean())
    return entries
