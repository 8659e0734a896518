"""Whether training is still well: what ends a run that learns nothing any more, or cannot go on."""

import math
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.types import Params

_NUM_ROWS = 50
_FACTOR = 10
_LARGEST_PARAMETER = 1e15

FAILURES = (OSError, MemoryError, jax.errors.JaxRuntimeError)
"""Raised where memory, the disk, the network or a device fails; no fault of the program."""


@jax.jit
def _all_finite(params: Params) -> jax.Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(params)]))


def check_parameters(found: dict[str, Any], source: Any) -> None:
    """Refuses parameters with which a network cannot compute.

    Beyond 1e15 in size, the sums of squares in the network's normalisation overflow float32.

    Args:
      found: the arrays by name.
      source: the file or folder they are from, for the message.

    Raises:
      ValueError: when a number is NaN, infinite or larger than that, in one line with the array.
    """
    for name, x in found.items():
        x = np.asarray(x)
        is_wrong = ~(np.abs(x) <= _LARGEST_PARAMETER)
        if is_wrong.any():
            raise ValueError(
                f"{source} cannot be used: {name} holds {x[is_wrong][0]:.3g}; parameters must be "
                f"finite and at most {_LARGEST_PARAMETER:.0e} in size. Take another checkpoint, or "
                "export the network again"
            )


def check_divergence(
    row: dict[str, Any], rows: list[dict[str, Any]], params: Params, num_actions: int
) -> str | None:
    """Finds what shows that training has failed.

    A number is not finite, among the losses or the parameters. Or a policy loss has exploded: it is
    above 10 log A, where uniform play has at most log A; or above log A and above 10 times its
    median in the last 50 rows, once there are as many.

    Args:
      row: an iteration's metrics, the losses named `policy_loss_0`, `value_loss_0` and so on.
      rows: those of the iterations before it.
      params: the network's parameters after it.
      num_actions: A, of the game.

    Returns:
      The metric and what is wrong with it, in words, or `None`.
    """
    losses = {name: row[name] for name in row if "_loss_" in name}
    for name, loss in losses.items():
        if not math.isfinite(loss):
            return f"{name} is {loss}"
    if not _all_finite(params):
        return "a parameter of the network is not finite"
    uniform = math.log(max(num_actions, 2))
    for name, loss in losses.items():
        if name.startswith("policy"):
            limit = _FACTOR * uniform
            if len(rows) >= _NUM_ROWS:
                usual = median(row[name] for row in rows[-_NUM_ROWS:])
                limit = min(limit, max(uniform, _FACTOR * usual))
            if loss > limit:
                return f"{name} is {loss:.3g}, more than {limit:.3g}"
    return None


def first_line(error: BaseException) -> str:
    """Describes an error by the first line of its message."""
    return (str(error).strip() or type(error).__name__).split("\n")[0]
