"""Devices: sharding over them, and their free memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dualmctx.checks import check

_AXIS = "data"
SHARDED = PartitionSpec(_AXIS)
"""The first axis is split evenly over the devices."""
REPLICATED = PartitionSpec()
"""Every device holds the whole array."""


def choose_devices(number: int | None) -> list[Any]:
    """Chooses the first devices of each process.

    Args:
      number: the number of devices per process, at least 1; by default all.

    Raises:
      ValueError: if the number is less than 1, or a process has fewer devices.
    """
    chosen = []
    for process in range(jax.process_count()):
        devices = [x for x in jax.devices() if x.process_index == process]
        remedy = f"from 1 to {len(devices)}, the devices of process {process}"
        check(number is None or 1 <= number <= len(devices), "devices", number, remedy)
        chosen += devices[:number]
    return chosen


def make_mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """Makes a mesh of devices, by default of all devices of all processes."""
    return Mesh(np.array(jax.devices() if devices is None else devices), (_AXIS,))


def check_split(mesh: Mesh, **numbers: int) -> None:
    """Checks that numbers are multiples of the number of devices.

    Raises:
      ValueError: if a number is not a multiple.
    """
    for name, number in numbers.items():
        next_multiple = -(-number // mesh.size) * mesh.size
        remedy = f"a multiple of the {mesh.size} devices: use {next_multiple}, or fewer --devices"
        check(number == next_multiple, name, number, remedy)


def shardings(mesh: Mesh, specs: Any) -> Any:
    """Converts a pytree of `SHARDED` and `REPLICATED` to shardings over the mesh."""
    is_spec = lambda x: isinstance(x, PartitionSpec)  # noqa: E731
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=is_spec)


def on_each(function: Any, mesh: Mesh, in_specs: Any, out_specs: Any) -> Any:
    """Returns a function that runs on each device with its shard of the arguments; see `total`."""
    # JAX's check of replication (`check_vma`) does not support the loops of a search.
    return jax.shard_map(
        function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def total(numbers: Any) -> Any:
    """Sums arrays over the devices; for use in a function given to `on_each`."""
    return jax.lax.psum(numbers, _AXIS)


def gather(tree: Any) -> Any:
    """Fetches whole arrays from all devices as NumPy arrays; every process must call it."""

    def fetch(x: Any) -> Any:
        if x.is_fully_addressable or x.is_fully_replicated:
            return np.asarray(x)
        return multihost_utils.process_allgather(x, tiled=True)

    # One array at a time, because each device temporarily holds the whole array.
    return jax.tree.map(fetch, tree)


def spread(tree: Any, shapes: Any) -> Any:
    """Shards whole NumPy arrays, which are the same in all processes, as their shapes say."""

    def put(x: Any, shape: jax.ShapeDtypeStruct) -> jax.Array:
        return jax.make_array_from_callback(x.shape, shape.sharding, lambda index: x[index])

    return jax.tree.map(put, tree, shapes)


def local(tree: Any) -> Any:
    """Returns the copies on this process's first device; arrays of NumPy stay as they are."""
    return jax.tree.map(lambda x: x.addressable_data(0) if isinstance(x, jax.Array) else x, tree)


def share(shapes: Any) -> Any:
    """Returns the shapes of the shards that each device holds, given shapes with shardings."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.sharding.shard_shape(x.shape), x.dtype), shapes
    )


# The file of Linux with the memory of the machine, and the folder of this process's control group.
_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
# For versions 2 and 1 of control groups: the files of the limit and of the usage, the file of the
# statistics, and the statistic of caches that Linux can reclaim.
_GROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


def free_memory(*, meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int | None:
    """Returns the free bytes of a device, or `None` if they are unknown.

    On a CPU this is the free memory of the machine or, if smaller, the rest of the container's
    limit. Several CPU devices, which are used only in tests, share it equally.

    Args:
      meminfo: the file of Linux with the memory of the machine.
      cgroup: the folder of this process's control group, version 1 or 2.
    """
    devices = jax.local_devices()
    device = devices[0]
    report = device.memory_stats() or {}
    if "bytes_limit" in report:
        return report["bytes_limit"] - report.get("bytes_in_use", 0)
    if device.platform != "cpu":
        return None
    # MemAvailable includes caches that Linux can reclaim.
    available = _number(meminfo, "MemAvailable:")
    free = [None if available is None else 1024 * available]
    for limit_file, usage_file, statistics, cache in _GROUP_FILES:
        limit, used = _number(cgroup / limit_file), _number(cgroup / usage_file)
        if limit is not None and used is not None:
            free.append(limit - used + (_number(cgroup / statistics, cache) or 0))
    known = [max(x, 0) for x in free if x is not None]
    return min(known) // len(devices) if known else None


def _number(file: Path, name: str | None = None) -> int | None:
    """Returns the number after a name in a file, or else the only one; `None` if there is none."""
    try:
        words = file.read_text().split()
        return int(words[0 if name is None else words.index(name) + 1])
    except (OSError, ValueError, IndexError):
        return None
