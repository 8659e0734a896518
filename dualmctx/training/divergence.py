"""Checks that stop a run: diverged training, unusable parameters, failed hardware."""

import errno
import math
import os
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.errors import UserError, reason_of
from dualmctx.types import Params

_NUM_ROWS = 50
_FACTOR = 10
_LARGEST_PARAMETER = 1e15
_REMEDIES = {
    errno.EACCES: "check its permissions",
    errno.EPERM: "check its permissions",
    errno.ENOSPC: "free space on its disk, or choose another one",
    errno.EDQUOT: "free space within the quota of its disk, or choose another one",
    errno.EROFS: "choose a place that can be written",
    errno.EMFILE: "allow more open files with ulimit -n",
}

FAILURES = (OSError, MemoryError, jax.errors.JaxRuntimeError)
"""Errors that are caused by memory, disk, network connection or device, not by the program."""


@jax.jit
def all_finite(params: Params) -> jax.Array:
    """Returns whether all numbers of a pytree of arrays are finite, as a scalar bool."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(params)]))


def check_parameters(parameters: dict[str, Any], source: Any) -> None:
    """Checks that parameters, by name, are finite and at most 1e15 in absolute value.

    With larger parameters, the sums of squares in layer normalisation overflow float32.

    Raises:
      ValueError: if one is not; the message names the array, and `source`, its file or folder.
    """
    for name, x in parameters.items():
        x = np.asarray(x)
        is_wrong = ~(np.abs(x) <= _LARGEST_PARAMETER)
        if is_wrong.any():
            raise UserError(
                f"{source} cannot be used: {name} holds {x[is_wrong][0]:.3g}; parameters must be "
                f"finite and at most {_LARGEST_PARAMETER:.0e} in size. Take another checkpoint, or "
                "export the network again"
            )


def check_divergence(
    row: dict[str, Any],
    rows: list[dict[str, Any]],
    params: Params,
    num_actions: int | None = None,
) -> str | None:
    """Checks whether training has diverged.

    Training has diverged if a metric or a parameter is not finite, or if the policy loss of a head
    in self-play is too large. The limit is 10 log A; uniform play has a loss of at most log A. Once
    there are 50 earlier rows, a policy loss is also too large if it is above log A and above 10
    times its median over the last 50 rows.

    Args:
      row: the metrics of an iteration; `policy_loss_0` and so on are the losses of self-play.
      rows: the metrics of the iterations before it.
      params: the parameters after the iteration.
      num_actions: A; `None` for losses without a limit.

    Returns:
      The metric and its value; `None` if training has not diverged.
    """
    for name, value in row.items():
        if not math.isfinite(value):
            return f"{name} is {value}"
    if not all_finite(params):
        return "a parameter of the network is not finite"
    uniform = math.log(max(num_actions or 0, 2))
    for name in (x for x in row if num_actions and x.startswith("policy_loss_")):
        limit = _FACTOR * uniform
        if len(rows) >= _NUM_ROWS:
            usual = median(row[name] for row in rows[-_NUM_ROWS:])
            limit = min(limit, max(uniform, _FACTOR * usual))
        if row[name] > limit:
            return f"{name} is {row[name]:.3g}, more than {limit:.3g}"
    return None


def first_line(error: BaseException) -> str:
    """Returns the first line of the message of an error, or its type if the message is empty.

    The message for an error of the operating system begins with the file, if it is known, and ends
    with a remedy, if there is one.
    """
    if isinstance(error, OSError) and error.strerror:
        # A descriptor, which is a number, names no file.
        names: Any = (error.filename, error.filename2)
        paths = [x for x in names if isinstance(x, str | bytes | os.PathLike)]
        files = " → ".join(map(os.fsdecode, paths))
        remedy = _REMEDIES.get(error.errno or 0)
        return (f"{files}: " if files else "") + "; ".join(filter(None, (error.strerror, remedy)))
    return reason_of(error)
