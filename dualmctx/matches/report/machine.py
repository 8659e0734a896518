"""Where and with what something was measured, for reports."""

import importlib.metadata
import os
import platform
from typing import Any

import jax

_PACKAGES = ("dualmctx", "jax", "jaxlib", "mctx", "numpy", "pgx", "open_spiel")


def machine() -> dict[str, Any]:
    """Says on what it runs; of a machine's cores those that it may use."""
    # A process may be tied to some cores, but not on every system.
    usable = getattr(os, "sched_getaffinity", None)
    cores = os.cpu_count() if usable is None else len(usable(0))
    return {"device": jax.devices()[0].device_kind, "cores": cores}


def versions() -> dict[str, str | None]:
    """Says with what it runs; `None` where a package is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found
