"""JAX's persistent compilation cache: compiled programs are kept for the next command."""

import contextlib
import glob
import hashlib
import os
import platform
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import jax

FLAG = "--no-cache"
"""The flag of all commands that turns the cache off."""
MAX_BYTES = 2**30
"""The size to which the cache is reduced when a command starts."""
_CPU_INFO = Path("/proc/cpuinfo")
_CACHE_ERROR = r"Error (?:reading|writing) persistent compilation cache entry for '(.*?)'"


def use_cache(arguments: list[str], program: str) -> list[str]:
    """Turns on the compilation cache of this process; returns the arguments without `--no-cache`.

    With that flag there is none. If `JAX_COMPILATION_CACHE_DIR` is set, or
    `JAX_ENABLE_COMPILATION_CACHE` is 0, JAX's own settings apply. A folder that cannot be used
    costs a line on standard error.
    """
    # The type of `jax.config` lacks the options.
    settings: Any = jax.config
    if FLAG in arguments:
        jax.config.update("jax_enable_compilation_cache", False)
        return [argument for argument in arguments if argument != FLAG]
    if not settings.jax_enable_compilation_cache or settings.jax_compilation_cache_dir:
        return arguments
    try:
        root = cache_root()
        folder = root / f"xla-{machine_digest()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(f"{folder} is not writable")
        reduce_size(root, MAX_BYTES)
    except (OSError, RuntimeError) as error:
        print(f"{program}: compiling without a cache: {error}", file=sys.stderr)
        return arguments
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Reading a small program takes a tenth of the time of compiling it.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    remove_damaged_entries(folder)
    return arguments


def cache_root() -> Path:
    """Returns `$XDG_CACHE_HOME/dualmctx`, by default `~/.cache/dualmctx`."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says that relative paths are to be ignored.
    return (base if base.is_absolute() else Path.home() / ".cache") / "dualmctx"


def machine_digest(cpu_info: Path = _CPU_INFO) -> str:
    """Returns a digest of the instruction set of this machine's CPU.

    JAX's keys do not contain it. Programs compiled for another CPU may end in SIGILL, for example
    if the machines of a cluster share a home folder.
    """
    try:
        lines = cpu_info.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    # Names on x86 and on ARM. The first processor stands for all.
    names = ("flags", "Features", "model name", "CPU implementer", "CPU part")
    known = {line.split(":")[0].strip(): line for line in reversed(lines) if line.startswith(names)}
    text = "\n".join([platform.machine(), platform.processor(), *sorted(known.values())])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def reduce_size(root: Path, max_bytes: int) -> None:
    """Removes the files that were not used for the longest time, until `max_bytes` are left.

    JAX can limit the size as well. It then needs a lock for each access, writes a file for each
    read, and stops storing programs if a process was killed between two writes.
    """
    # Another command may remove files at the same time.
    files = [(stat, path) for path in root.rglob("*") if (stat := _stat(path)) is not None]
    excess = sum(stat.st_size for stat, _ in files) - max_bytes
    for stat, path in sorted(files, key=lambda file: max(file[0].st_atime, file[0].st_mtime)):
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= stat.st_size


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat() if path.is_file() else None
    except FileNotFoundError:
        return None


def remove_damaged_entries(folder: Path) -> None:
    """Replaces JAX's warnings about entries that cannot be read or written by their removal.

    A full disk or a kill leaves an incomplete entry. JAX compiles its program again, but keeps the
    file and warns in every later run.
    """
    show = warnings.showwarning

    def show_or_remove(message: Warning | str, *details: Any, **named: Any) -> None:
        found = re.match(_CACHE_ERROR, str(message))
        if found is None:
            show(message, *details, **named)
            return
        for path in folder.glob(f"{glob.escape(found[1])}-*-cache"):
            with contextlib.suppress(OSError):
                path.unlink()

    warnings.showwarning = show_or_remove
