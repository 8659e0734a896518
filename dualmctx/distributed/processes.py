"""One process of several: how it joins the others, and that all of them run the same."""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from dualmctx.distributed import runtime_errors
from dualmctx.distributed.signals import SIGNALS

HEARTBEAT_SECONDS = 30
"""A process that is not heard of for so long is lost, and ends the others."""


def join(
    coordinator: str,
    num_processes: int | None = None,
    process_id: int | None = None,
    program: str = "train.py",
) -> None:
    """Makes this process one of several, before JAX starts its devices.

    Args:
      coordinator: where the first process can be reached, `HOST:PORT`, or `auto` for what SLURM or
        Open MPI say.
      num_processes: how many there are; `None` with `auto`.
      process_id: the number of this one, from 0; `None` with `auto`.
      program: how the command is called where it says that a process was lost.

    Raises:
      ValueError: when nothing says how many processes there are, or the first one cannot be
        reached within five minutes, in one line.
    """
    is_auto = coordinator == "auto"
    _filter_stderr(program)
    try:
        jax.distributed.initialize(
            None if is_auto else coordinator,
            num_processes,
            process_id,
            # Otherwise a process would take one device only where SLURM is found.
            cluster_detection_method=None if is_auto else "deactivate",
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except ValueError as error:
        raise ValueError(
            "coordinator is auto, but neither SLURM nor Open MPI says how many processes there "
            "are; use --coordinator HOST:PORT --num-processes N --process-id I"
        ) from error
    except (RuntimeError, jax.errors.JaxRuntimeError) as error:
        raise ValueError(f"coordinator is {coordinator}; {str(error).splitlines()[0]}") from error
    # JAX has taken SIGTERM, and would do nothing with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not is_first():
        # The first process decides when to stop, and speaks; launchers signal to all.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def is_first() -> bool:
    """Returns whether this process decides."""
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def require_same(what: dict[str, Any]) -> None:
    """Checks that all processes run the same.

    Args:
      what: what must be equal everywhere, as JSON can hold it.

    Raises:
      ValueError: in the first process, when another one differs, in one line.
      SystemExit: in the others then, with code 2.
    """
    if not jax.distributed.is_initialized():
        return
    text = json.dumps([what, jax.__version__], sort_keys=True)
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint32)
    digests = multihost_utils.process_allgather(digest)
    others = np.flatnonzero((digests != digests[0]).any(axis=1))
    if others.size and not is_first():
        raise SystemExit(2)
    if others.size:
        raise ValueError(
            f"process {others[0]} was started with other settings or another JAX than process 0; "
            "give all processes the same flags"
        )


def _filter_stderr(program: str) -> None:
    """Has what goes to standard error, of JAX's runtime too, pass `lines`."""
    given, taken = os.pipe()
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", str(Path(runtime_errors.__file__)), program],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, given, 0), (os.POSIX_SPAWN_CLOSE, taken)],
        # It ends when this process has.
        setsigmask=SIGNALS,
    )
    os.dup2(taken, 2)
    os.close(taken)
    os.close(given)
