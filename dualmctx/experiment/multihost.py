"""Several processes: the first one decides and writes, the others do as it says.

Every process runs the same programs on its own devices. What comes next, the first process tells
the others before it begins: so Ctrl-C, an exam's result or a failure are decisions of one process.
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
from dualmctx.training.divergence import FAILURES, first_line
from dualmctx.training.trainer import IterateFn, Trainer, TrainState


class Command(enum.IntEnum):
    """What the first process has the others do with it."""

    INIT = 1
    COMPILE = 2
    ITERATE = 3
    GATHER = 4
    SPREAD = 5
    END = 6


class Abandoned(Exception):
    """What all processes do together has failed in the first one; the others wait in it."""


def run_coordinator(command: Callable[[], int]) -> int:
    """Runs the first process's command, then ends the others with its exit code."""
    if not jax.distributed.is_initialized():
        return command()
    try:
        try:
            code = command()
        except SystemExit as error:
            code = int(error.code or 0)
        _tell(Command.END, code)
    except BaseException as error:
        _leave(error)
        raise
    return code


def run_worker(make_trainer: Callable[[], Trainer], seed: int) -> int:
    """Does what the first process says until it ends; returns its exit code."""
    try:
        return _follow(make_trainer, seed)
    except BaseException as error:
        _leave(error)
        raise


def _follow(make_trainer: Callable[[], Trainer], seed: int) -> int:
    order, code = _hear()
    # What does not fit together is refused by the first process.
    trainer: Any = None if order == Command.END else make_trainer()
    state: Any = None
    iterate: Any = None
    while order != Command.END:
        if order == Command.INIT:
            state = trainer.init(seed)
        elif order == Command.SPREAD:
            # Nothing is initialised where a state is restored.
            shapes = jax.eval_shape(lambda: trainer.init(seed))
            state = devices.spread(_received(shapes), trainer.shardings)
        elif order == Command.COMPILE:
            iterate = trainer.compile(state)
        elif order == Command.ITERATE:
            state, _ = iterate(state)
        elif order == Command.GATHER:
            devices.gather(state)
        order, code = _hear()
    return code


def leading(trainer: Trainer) -> Trainer:
    """Returns a trainer that has the other processes, if any, do the same."""
    if not jax.distributed.is_initialized():
        return trainer

    def init(seed: int) -> TrainState:
        with _together(Command.INIT):
            return trainer.init(seed)

    def compile_for(state: TrainState) -> IterateFn:
        with _together(Command.COMPILE):
            iterate = trainer.compile(state)

        def iterate_all(state: TrainState) -> tuple[TrainState, dict[str, float]]:
            with _together(Command.ITERATE):
                return iterate(state)

        return iterate_all

    return trainer._replace(init=init, compile=compile_for)


def gather(state: Any) -> Any:
    """Fetches a whole state from all devices, as NumPy arrays."""
    with _together(Command.GATHER):
        return devices.gather(state)


def spread(state: Any, shardings: Any) -> Any:
    """Spreads a whole state of NumPy arrays, as a checkpoint has it, over all devices."""
    if not jax.distributed.is_initialized():
        return devices.spread(state, shardings)
    with _together(Command.SPREAD):
        return devices.spread(_received(state), shardings)


def _received(state: Any) -> Any:
    """Returns the first process's arrays, in all; of others' only shapes and dtypes matter."""

    def receive(x: Any) -> Any:
        given = np.asarray(x) if processes.is_first() else np.zeros(x.shape, x.dtype)
        return np.asarray(multihost_utils.broadcast_one_to_all(given))

    return jax.tree.map(receive, state)


@contextlib.contextmanager
def _together(order: Command) -> Iterator[None]:
    """Has the others do what this process does meanwhile.

    Raises:
      Abandoned: when it fails here and others are waiting in it.
    """
    try:
        _tell(order)
        yield
    except Exception as error:
        if jax.distributed.is_initialized():
            raise Abandoned from error
        raise


def _tell(order: Command, value: int = 0) -> None:
    if jax.distributed.is_initialized():
        multihost_utils.broadcast_one_to_all(np.array([order, value], np.int32))


def _hear() -> tuple[Command, int]:
    order, value = multihost_utils.broadcast_one_to_all(np.zeros(2, np.int32))
    return Command(int(order)), int(value)


def _leave(error: BaseException) -> None:
    """Ends this process at once where it has failed, as the others would wait for it in vain."""
    if isinstance(error, Abandoned):
        error = error.__cause__ or error
    if isinstance(error, ValueError | RuntimeError):
        # So a lost process shows. JAX's runtime then ends this one, and says which it was.
        time.sleep(processes.HEARTBEAT_SECONDS + 15)
    code = 1
    if isinstance(error, KeyboardInterrupt):
        code = 130
        print(f"train.py: stopped at once{''.join(error.args)}", file=sys.stderr)
    elif isinstance(error, FAILURES):
        code = 2
        who = f"process {jax.process_index()}"
        remedy = "--resume goes on from the last save"
        print(f"train.py: {who} has failed: {first_line(error)}; {remedy}", file=sys.stderr)
    else:
        traceback.print_exception(error)
    sys.stdout.flush()
    os._exit(code)
