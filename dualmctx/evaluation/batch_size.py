"""The default batch size of an evaluation, from the device, its memory and the positions."""

import jax
import numpy as np

from dualmctx.distributed.devices import choose_devices, free_memory
from dualmctx.evaluation.evaluations import by_network, make_evaluate_batch
from dualmctx.evaluation.factory import state_shapes
from dualmctx.models.search_memory import num_bytes, search_memory, temporary_bytes
from dualmctx.runs.saved_network import Trained, model_kwargs_of
from dualmctx.types import Policy

DEFAULT_BATCH_SIZE = 256
"""The batch size on a CPU, for standard input, and if the free memory is unknown."""
MAX_SHARE = 16_384
"""The largest default number of positions per device."""
# The batch uses at most this share of the free memory: the prediction is not exact, and the device
# holds the states and evaluations of two batches.
_MEMORY_SHARE = 0.5
# Memory is predicted for this number of positions; it is nearly proportional to the number.
_MEASURED = 256
# Positions that do not fit into one batch are split into at least this number of batches, because
# the host and the device overlap only if there are several.
_MIN_BATCHES = 4
# The number of positions per device is rounded up to a multiple of this number.
_MULTIPLE = 64


def default_batch_size(
    trained: Trained,
    policy: Policy | None,
    *,
    devices: int | None = None,
    max_positions: int | None = None,
) -> int:
    """Chooses a batch size for the devices of this process.

    A prediction of the memory compiles parts of the search, which takes seconds; none is made for a
    CPU or an unknown number of positions.

    Args:
      trained: the network.
      policy: the search; `None` for the network alone.
      devices: number of this process's devices to use; by default all.
      max_positions: an upper bound of the number of positions of this process; `None` if it is
        unknown, as for standard input.

    Returns:
      A multiple of the number of devices. On a CPU, for an unknown number of positions, or with an
      unknown amount of memory: 256, rounded up. Otherwise `balanced_share` for each device, within
      `fitting_batch_size`.

    Raises:
      ValueError: if there are fewer devices.
    """
    process = jax.process_index()
    chosen = [x for x in choose_devices(devices) if x.process_index == process]
    is_fixed = max_positions is None or chosen[0].platform == "cpu"
    free = None if is_fixed else free_memory()
    if max_positions is None or free is None:
        return _divide_up(DEFAULT_BATCH_SIZE, len(chosen)) * len(chosen)
    fitting = fitting_batch_size(bytes_per_position(trained, policy), free)
    return balanced_share(_divide_up(max_positions, len(chosen)), fitting) * len(chosen)


def balanced_share(number: int, fitting: int) -> int:
    """Splits the positions of a device evenly into batches.

    Args:
      number: number of positions, at least 1.
      fitting: the largest number of positions that fits into a batch.

    Returns:
      The number of positions per batch, at most `fitting`: a multiple of 64 if `fitting` is one.
      Positions that fit are one batch; others are at least four batches.
    """
    batches = 1 if number <= fitting else max(_MIN_BATCHES, _divide_up(number, fitting))
    share = _divide_up(number, batches)
    return min(_divide_up(share, _MULTIPLE) * _MULTIPLE, fitting)


def fitting_batch_size(bytes_each: int, free: int) -> int:
    """Returns the largest power of two up to `MAX_SHARE` that needs at most half of `free` bytes.

    A power of two rarely changes when the free memory changes a little.

    Args:
      bytes_each: the bytes that a position needs.
      free: the free bytes of the device.

    Returns:
      The number of positions, at least 1.
    """
    fitting = min(int(_MEMORY_SHARE * free) // bytes_each, MAX_SHARE)
    return 1 << max(fitting.bit_length() - 1, 0)


def bytes_per_position(trained: Trained, policy: Policy | None) -> int:
    """Predicts the bytes that a position needs while it is evaluated, without the parameters."""
    env, network = trained.env, trained.network
    states = state_shapes(env, _MEASURED)
    if policy is None:
        evaluate = make_evaluate_batch(network, by_network)
        key = jax.ShapeDtypeStruct((2,), np.uint32)
        digests = jax.ShapeDtypeStruct((_MEASURED, 2), np.uint32)
        needed = temporary_bytes(evaluate, trained.params, key, digests, states)
    else:
        options = model_kwargs_of(trained.record)
        policy = policy.for_evaluation()
        needed = search_memory(env, network, policy, _MEASURED, **options).total
    return _divide_up(num_bytes(states) + needed, _MEASURED)


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor)
