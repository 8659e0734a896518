"""Training with several processes: a coordinator and its workers.

Every process runs the same programs on its own devices. The first process is the coordinator; it
broadcasts each command before running it, and it alone writes files. So only the coordinator reacts
to Ctrl-C, to the results of evals and to failures.
"""

import contextlib
import enum
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from dualmctx.distributed import devices, processes
from dualmctx.errors import UserError
from dualmctx.training.divergence import FAILURES, first_line
from dualmctx.training.trainer import IterateFn, Trainer, TrainState


class Command(enum.IntEnum):
    """A command that the coordinator and the workers run together."""

    INIT = 1
    COMPILE = 2
    ITERATE = 3
    GATHER = 4
    SPREAD = 5
    END = 6


class CollectiveFailed(Exception):
    """A command failed in the coordinator while the workers were waiting in that command."""


def run_coordinator(command: Callable[[], int], program: str) -> int:
    """Runs a command in the coordinator, then ends the workers with the exit code it returns."""
    if not jax.distributed.is_initialized():
        return command()
    try:
        code = command()
        _broadcast(Command.END, code)
    except BaseException as error:
        _exit_after(error, program)
        raise
    return code


def run_worker(build: Callable[[], Trainer], seed: int, program: str) -> int:
    """Runs the coordinator's commands until it ends; returns its exit code.

    Args:
      build: builds the same trainer as the coordinator's.
      seed: the seed of the run.
      program: the command's name, for messages.
    """
    try:
        return _run_commands(build, seed)
    except BaseException as error:
        _exit_after(error, program)
        raise


def _run_commands(build: Callable[[], Trainer], seed: int) -> int:
    command, code = _receive()
    # If the configuration is bad, the first command is END.
    trainer: Any = None if command == Command.END else build()
    state: Any = None
    iterate: Any = None
    while command != Command.END:
        if command == Command.INIT:
            state = trainer.init(seed)
        elif command == Command.SPREAD:
            # Only the shapes are needed, because the state is restored.
            state = devices.spread(_broadcast_state(trainer.shapes), trainer.shapes)
        elif command == Command.COMPILE:
            iterate = trainer.compile(state)
        elif command == Command.ITERATE:
            state, _ = iterate(state)
        elif command == Command.GATHER:
            devices.gather(state)
        command, code = _receive()
    return code


def coordinate(trainer: Trainer) -> Trainer:
    """Returns the coordinator's trainer, which broadcasts each call to the workers, if any."""
    if not jax.distributed.is_initialized():
        return trainer

    def init(seed: int) -> TrainState:
        with _with_workers(Command.INIT):
            return trainer.init(seed)

    def compile_for(state: TrainState) -> IterateFn:
        with _with_workers(Command.COMPILE):
            iterate = trainer.compile(state)

        def iterate_all(state: TrainState) -> tuple[TrainState, dict[str, float]]:
            with _with_workers(Command.ITERATE):
                return iterate(state)

        return iterate_all

    return trainer._replace(init=init, compile=compile_for)


def gather(state: Any) -> Any:
    """Fetches a whole state from all devices, as NumPy arrays; called by the coordinator."""
    with _with_workers(Command.GATHER):
        return devices.gather(state)


def spread(state: Any, shapes: Any) -> Any:
    """Spreads a restored state of NumPy arrays over all devices; called by the coordinator."""
    if not jax.distributed.is_initialized():
        return devices.spread(state, shapes)
    with _with_workers(Command.SPREAD):
        return devices.spread(_broadcast_state(state), shapes)


def _broadcast_state(state: Any) -> Any:
    """Returns the coordinator's arrays in all processes; a worker passes shapes and dtypes."""

    def broadcast(x: Any) -> Any:
        own = np.asarray(x) if processes.is_first() else np.zeros(x.shape, x.dtype)
        return np.asarray(multihost_utils.broadcast_one_to_all(own))

    return jax.tree.map(broadcast, state)


@contextlib.contextmanager
def _with_workers(command: Command) -> Iterator[None]:
    """Broadcasts a command; the body, which may fail, runs it in the coordinator."""
    try:
        _broadcast(command)
        yield
    except Exception as error:
        if jax.distributed.is_initialized():
            raise CollectiveFailed from error
        raise


def _broadcast(command: Command, code: int = 0) -> None:
    if jax.distributed.is_initialized():
        multihost_utils.broadcast_one_to_all(np.array([command, code], np.int32))


def _receive() -> tuple[Command, int]:
    command, code = multihost_utils.broadcast_one_to_all(np.zeros(2, np.int32))
    return Command(int(command)), int(code)


def _exit_after(error: BaseException, program: str) -> None:
    """Reports an error and exits at once: a normal exit would wait for the other processes."""
    if isinstance(error, CollectiveFailed):
        error = error.__cause__ or error
    if isinstance(error, ValueError | RuntimeError) and not isinstance(error, UserError):
        # The loss of another process also raises such an error. In that case JAX's runtime ends
        # this process while it sleeps, and names the lost process.
        time.sleep(processes.HEARTBEAT_SECONDS + 15)
    code = 1
    if isinstance(error, KeyboardInterrupt):
        code = 130
        print(f"{program}: stopped immediately{''.join(error.args)}", file=sys.stderr)
    elif isinstance(error, (UserError, *FAILURES)):
        code = 2
        remedy = "; --resume continues from the last checkpoint, if there is one"
        reason = first_line(error) + ("" if isinstance(error, UserError) else remedy)
        print(f"{program}: process {jax.process_index()} failed: {reason}", file=sys.stderr)
    else:
        traceback.print_exception(error)
    sys.stdout.flush()
    os._exit(code)
