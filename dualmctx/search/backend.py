"""The choice between XLA's loops and GPU kernels, once when a search starts."""

from typing import Any

import jax
from jax import Array

from dualmctx.search import backup, keys, parallel_leaves, select, simulate
from dualmctx.search.spec import Backend
from dualmctx.types import Kernels

# The largest position in an array that an int32 can hold.
_MAX_POSITION = 2**31 - 1
_CONFIG: Any = jax.config  # Its settings have no types.


LOOPS = Backend(
    descend=select.descend,
    insert_and_backup=backup.insert_and_backup,
    simulate_existing=simulate.simulate_existing,
    select_leaves=parallel_leaves.select_leaves,
    backup_parallel=parallel_leaves.backup_parallel,
    sum_paths=backup.sum_paths,
    log_gamma=keys.log_gamma,
)
"""XLA's loops, on any platform."""


def choose_backend(kernels: Kernels, array: Array) -> Backend:
    """Returns the backend of a search.

    Kernels run in programs for CUDA, and XLA's loops in those for other platforms. The loops run on
    all platforms if kernels cannot: in 64-bit mode, if the numbers that the rules read have 16 bits
    (see `NodeInit.prior`), and if int32 cannot address an array. With a key from which kernels
    cannot sample, and with rules or statistics that are not made for kernels, the loops run in
    place of those kernels that would need them.

    Args:
      kernels: the option of the search.
      array: the largest array of which a kernel reads rows, such as `Tree.children_prior`.
    """
    # A process without a GPU needs no time to trace the kernels.
    is_elsewhere = kernels == "auto" and jax.default_backend() != "gpu"
    # A statistic may have two numbers per edge. Triton cannot divide numbers of 16 bits.
    is_possible = 2 * array.size <= _MAX_POSITION and array.dtype.itemsize >= 4
    if kernels == "off" or is_elsewhere or not is_possible or _CONFIG.jax_enable_x64:
        return LOOPS
    from dualmctx.search.gpu.kernels import gpu_backend

    return gpu_backend(LOOPS, interpret=kernels == "interpret")
