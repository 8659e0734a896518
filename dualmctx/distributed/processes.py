"""Runs on several processes: joining them, and checking that their settings are the same."""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from dualmctx.checks import check, show
from dualmctx.distributed import runtime_errors
from dualmctx.distributed.backend import require_backend
from dualmctx.distributed.signals import SIGNALS
from dualmctx.errors import UserError, reason_of

HEARTBEAT_SECONDS = 30
"""A process without a heartbeat for this long counts as lost, and the other processes end."""


def join(coordinator: str, num_processes: int | None, process_id: int | None, program: str) -> None:
    """Joins this process to the others. Must be called before JAX initialises its devices.

    Args:
      coordinator: the address of the first process, `HOST:PORT`, or `auto` to take it from SLURM
        or Open MPI.
      num_processes: the number of processes; `None` with `auto`.
      process_id: the index of this process, from 0; `None` with `auto`.
      program: the name of the command, for the message about a lost process.

    Raises:
      ValueError: if `auto` finds no cluster, the first process cannot be reached within five
        minutes, there is no usable device, or the processes have different numbers of devices.
    """
    is_auto = coordinator == "auto"
    _copy_stderr(program)
    try:
        jax.distributed.initialize(
            None if is_auto else coordinator,
            num_processes,
            process_id,
            # With cluster detection, a process under SLURM would use one device only.
            cluster_detection_method=None if is_auto else "deactivate",
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except ValueError as error:
        if not is_auto:
            raise UserError(f"coordinator is {coordinator}; {reason_of(error)}") from error
        raise UserError(
            "coordinator is auto, but neither SLURM nor Open MPI gives the number of processes; "
            "use --coordinator HOST:PORT --num-processes N --process-id I"
        ) from error
    except (RuntimeError, jax.errors.JaxRuntimeError) as error:
        raise UserError(f"coordinator is {coordinator}; {reason_of(error)}") from error
    require_backend(program)
    _require_equal_numbers_of_devices()
    # JAX has installed a handler for SIGTERM that only records the signal.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not is_first():
        # Only the first process prints and decides when to stop. Launchers signal all processes.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _require_equal_numbers_of_devices() -> None:
    """Checks that all processes see the same number of devices, which exchanges need."""
    owners = [device.process_index for device in jax.devices()]
    counts = [owners.count(process) for process in range(jax.process_count())]
    remedy = "the same in each; hide devices with CUDA_VISIBLE_DEVICES"
    check(len(set(counts)) == 1, "the number of devices per process", show(counts), remedy)


def is_first() -> bool:
    """Returns whether this is the first or only process."""
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def from_first(read: Callable[[], Any]) -> Any:
    """Returns a JSON value that the first process reads; the others receive it.

    Raises:
      ValueError: in the first process, if it cannot read the value; or another error of `read`.
      SystemExit: in the other processes in that case, with code 2.
    """
    if not jax.distributed.is_initialized():
        return read()
    error, text = None, ""
    if is_first():
        try:
            text = json.dumps({"value": read()})
        except Exception as raised:
            # The others wait for an answer.
            error = raised
    size = int(multihost_utils.broadcast_one_to_all(np.array(len(text.encode()), np.int32)))
    if error is not None:
        raise error
    if not size:
        raise SystemExit(2)
    own = np.frombuffer(text.encode() or bytes(size), np.uint8)
    return json.loads(np.asarray(multihost_utils.broadcast_one_to_all(own)).tobytes())["value"]


def require_same(settings: dict[str, Any]) -> None:
    """Checks that all processes have the same settings and the same version of JAX.

    Args:
      settings: values that JSON can represent.

    Raises:
      ValueError: in the first process, if another process differs.
      SystemExit: in the other processes in that case, with code 2.
    """
    if not jax.distributed.is_initialized():
        return
    text = json.dumps([settings, jax.__version__], sort_keys=True)
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint32)
    digests = multihost_utils.process_allgather(digest)
    others = np.flatnonzero((digests != digests[0]).any(axis=1))
    if others.size and not is_first():
        raise SystemExit(2)
    if others.size:
        raise UserError(
            f"process {others[0]} was started with other settings or another JAX than process 0; "
            "give all processes the same flags"
        )


def _copy_stderr(program: str) -> None:
    """Pipes standard error, including that of JAX's C++ runtime, through `runtime_errors`."""
    read_end, write_end = os.pipe()
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", str(Path(runtime_errors.__file__)), program],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, read_end, 0), (os.POSIX_SPAWN_CLOSE, write_end)],
        # The child must not end before this process does, so it blocks these signals.
        setsigmask=SIGNALS,
    )
    os.dup2(write_end, 2)
    os.close(write_end)
    os.close(read_end)
