"""The backend of JAX: checks that there is a usable device, and names the needs of a GPU."""

import contextlib
import importlib.metadata
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax

from dualmctx.errors import UserError

# The file with the driver's version. WSL has the library of NVIDIA's driver if the host has a GPU.
_DRIVER, _WSL = Path("/proc/driver/nvidia/version"), Path("/usr/lib/wsl/lib/libcuda.so.1")
_PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin")


class Found(NamedTuple):
    """The NVIDIA GPUs of a machine and the software for them.

    Attributes:
      jax: the version of JAX.
      plugins: the names and versions of the installed CUDA plugins of JAX.
      gpus: the device files of NVIDIA GPUs; on WSL, the library of the driver.
      driver: the version of NVIDIA's driver; `None` if unknown.
    """

    jax: str
    plugins: tuple[str, ...]
    gpus: tuple[str, ...]
    driver: str | None


def require_backend(program: str) -> None:
    """Initialises the devices of JAX.

    If `JAX_PLATFORMS` does not name a platform and a GPU cannot be used, JAX uses the CPU, and a
    hint on standard error names the needs of the GPU. With `JAX_PLATFORMS=cpu` there is no hint.
    Processes of one run must have joined before (`processes.join`).

    Args:
      program: the name of the command, for the hint.

    Raises:
      ValueError: if `JAX_PLATFORMS` names a platform that is missing or does not work; the message
        has the cause, the GPUs and packages that were found, and the remedy.
    """
    # The type of `jax.config` lacks the options.
    settings: Any = jax.config
    asked, cause = settings.jax_platforms, ""
    try:
        platform = jax.devices()[0].platform
    # AssertionError: JAX looked for NVIDIA GPUs only, and there is no device file of one.
    except (RuntimeError, AssertionError) as error:
        if asked:
            raise UserError(describe_failure(asked, str(error), find_gpus())) from error
        cause = f"{_first_line(str(error))}; "
        jax.config.update("jax_platforms", "cpu")
        platform = jax.devices()[0].platform
    found = find_gpus()
    if platform == "cpu" and not asked and found.gpus:
        hint = f"{cause}JAX uses the CPU; {_describe(found)}; to use the GPU: {_install(found)}"
        print(f"{program}: {hint}, or set JAX_PLATFORMS=cpu to silence it", file=sys.stderr)


def find_gpus(*, devices: Path = Path("/dev"), driver: Path = _DRIVER, wsl: Path = _WSL) -> Found:
    """Looks for NVIDIA GPUs and for the software that JAX needs for them.

    Args:
      devices: the folder of device files.
      driver: the file of Linux with the version of NVIDIA's driver.
      wsl: the library of NVIDIA's driver on WSL, which has no device file for each GPU.
    """
    plugins: list[str] = []
    for name in _PLUGINS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            plugins.append(f"{name} {importlib.metadata.version(name)}")
    files = sorted(devices.glob("nvidia[0-9]*")) or [wsl] * wsl.exists()
    version = None
    with contextlib.suppress(OSError):
        version = re.search(r"\d{3,}\.[\d.]+", driver.read_text())
    return Found(
        jax=jax.__version__,
        plugins=tuple(plugins),
        gpus=tuple(map(str, files)),
        driver=version and version[0],
    )


def describe_failure(platforms: str, reason: str, found: Found) -> str:
    """Describes a failure to initialise the devices that `JAX_PLATFORMS` names, with the remedy.

    Args:
      platforms: the value of `JAX_PLATFORMS`.
      reason: JAX's message.
      found: the GPUs and packages of the machine.
    """
    cause = _first_line(reason)
    if not {"cuda", "gpu"} & set(platforms.split(",")):
        return f"JAX_PLATFORMS is {platforms}, but JAX cannot use it: {cause}; set it to cpu"
    # Without a plugin, JAX's message is about other platforms.
    cause = f"{cause}; " if cause and found.plugins else ""
    return (
        f"JAX_PLATFORMS is {platforms}, but JAX found no usable GPU: {cause}{_describe(found)}; "
        f"on a machine with an NVIDIA GPU use {_install(found)}, or set JAX_PLATFORMS to cpu"
    )


def _first_line(text: str) -> str:
    # JAX appends advice in brackets, about settings that the messages here name themselves.
    return text.strip().split("\n")[0].split(" (set JAX_PLATFORMS")[0].split(" (you may need")[0]


def _describe(found: Found) -> str:
    gpu = ", ".join(found.gpus) or "no NVIDIA GPU (/dev/nvidia0)"
    driver = f", NVIDIA driver {found.driver}" if found.driver else ""
    return f"found JAX {found.jax}, {', '.join(found.plugins) or 'no CUDA plugin'}, {gpu}{driver}"


def _install(found: Found) -> str:
    """Returns the command that installs JAX's plugin for GPUs, as the extra `gpu` does."""
    return f'pip install "jax[cuda12]=={found.jax}"'
