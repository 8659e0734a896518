"""Functions of tests that run in a process of their own, because JAX reads its flags only once."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from documents import ROOT

EIGHT_DEVICES = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"


def call_with_flags(function: Callable[[], None], flags: str) -> None:
    """Calls a function of a file of tests in a process in which XLA has these flags."""
    file = Path(function.__code__.co_filename)
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests", file.parent, *filter(None, given))))
    program = f"import {file.stem}; {file.stem}.{function.__name__}()"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
