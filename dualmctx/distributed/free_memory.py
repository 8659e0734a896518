"""The free memory of a device."""

from pathlib import Path

import jax

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

    On a CPU this is the free memory of the machine or, if smaller, what is left of the container's
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
    available = _field(meminfo, "MemAvailable:")
    free = [None if available is None else 1024 * available]
    for limit_file, usage_file, statistics, cache in _GROUP_FILES:
        limit, used = _number(cgroup / limit_file), _number(cgroup / usage_file)
        if limit is not None and used is not None:
            free.append(limit - used + (_field(cgroup / statistics, cache) or 0))
    known = [max(x, 0) for x in free if x is not None]
    return min(known) // len(devices) if known else None


def _number(file: Path) -> int | None:
    """Returns the number in a file; `None` if there is none, for example if the file has "max"."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _field(file: Path, name: str) -> int | None:
    """Returns the number on the line of a file that begins with a name; `None` if there is none."""
    try:
        rows = (line.split() for line in file.read_text().splitlines())
        return next((int(row[1]) for row in rows if row[:1] == [name]), None)
    except (OSError, ValueError, IndexError):
        return None
