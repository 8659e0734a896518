"""The default batch size of an evaluation, from the device and its memory."""

from typing import Any

import jax
import numpy as np

from dualmctx.distributed.devices import choose_devices
from dualmctx.distributed.free_memory import free_memory
from dualmctx.evaluation.evaluations import by_network, make_evaluate_batch
from dualmctx.models.search_memory import num_bytes, search_memory, temporary_bytes
from dualmctx.runs.saved_network import Trained, model_kwargs_of
from dualmctx.types import Policy

CPU_BATCH_SIZE = 256
"""The default batch size on a CPU, and on a device with an unknown amount of memory."""
MAX_SHARE = 16_384
"""The largest default number of positions per device."""
# The batch uses at most this share of the free memory: the prediction is not exact, and the device
# holds the states and evaluations of two batches.
_MEMORY_SHARE = 0.5
# Memory is predicted for this number of positions; it is nearly proportional to the number.
_MEASURED = 256


def default_batch_size(
    trained: Trained,
    policy: Policy | None,
    *,
    devices: int | None = None,
    max_positions: int | None = None,
) -> int:
    """Chooses a batch size for the devices of this process.

    A prediction of the memory compiles parts of the search, which takes seconds; none is made for a
    CPU.

    Args:
      trained: the network.
      policy: the search; `None` for the network alone.
      devices: number of this process's devices to use; by default all.
      max_positions: an upper bound of the number of positions; `None` if it is unknown.

    Returns:
      256 on a CPU. Otherwise a multiple of the number of devices: for each device, the largest
      power of two up to 16,384 that needs at most half of its free memory, but no larger than
      needed for `max_positions`.

    Raises:
      ValueError: if there are fewer devices.
    """
    process = jax.process_index()
    chosen = [x for x in choose_devices(devices) if x.process_index == process]
    free = None if chosen[0].platform == "cpu" else free_memory()
    if free is None:
        return CPU_BATCH_SIZE
    share = fitting_batch_size(bytes_per_position(trained, policy), free)
    if max_positions is not None:
        share = min(share, _next_power_of_two(-(-max_positions // len(chosen))))
    return share * len(chosen)


def fitting_batch_size(bytes_each: int, free: int) -> int:
    """Returns the largest power of two up to `MAX_SHARE` that needs at most half of `free` bytes.

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
    keys = jax.ShapeDtypeStruct((_MEASURED, 2), np.uint32)
    states: Any = jax.eval_shape(jax.vmap(env.init), keys)
    if policy is None:
        evaluate = make_evaluate_batch(network, by_network)
        key = jax.ShapeDtypeStruct((2,), np.uint32)
        needed = temporary_bytes(evaluate, trained.params, key, keys, states)
    else:
        options = model_kwargs_of(trained.record)
        policy = policy.for_evaluation()
        needed = search_memory(env, network, policy, _MEASURED, **options).total
    return -(-(num_bytes(states) + needed) // _MEASURED)


def _next_power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()
