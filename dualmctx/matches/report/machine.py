"""The machine and the versions of a measurement, for reports."""

import importlib.metadata
import os
import platform
from typing import Any

import jax

_PACKAGES = ("dualmctx", "jax", "jaxlib", "mctx", "numpy", "pgx", "open_spiel")


def machine() -> dict[str, Any]:
    """Returns the device and the number of CPU cores that this process may use."""
    # Not every operating system can restrict a process to some of the cores.
    usable = getattr(os, "sched_getaffinity", None)
    cores = os.cpu_count() if usable is None else len(usable(0))
    return {"device": jax.devices()[0].device_kind, "cores": cores}


def versions() -> dict[str, str | None]:
    """Returns the versions of Python and of the packages; `None` if one is not installed."""
    installed: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = None
    return installed
