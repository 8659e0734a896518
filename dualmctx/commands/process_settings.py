"""Settings of the process of a command: the log of orbax, and garbage collections."""

import contextlib
import gc
import logging
import sys
from collections.abc import Iterator
from typing import Any

_OBJECTS_PER_COLLECTION = 1_000_000
# tensorstore, the library of orbax, raises this for each array in progress after one failed.
_CLOSED = "Event loop is closed"
# The end of each error of tensorstore.
_SPEC = "[tensorstore_spec="


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Makes garbage collections rare, and makes them skip the objects that exist already.

    Rows consist of many small objects without cycles. By default, Python collects garbage after
    every 700 of them and often visits all objects of JAX, which takes longer than making the rows.
    The settings apply to the whole process, so only a command may use this, and only once at a
    time.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


@contextlib.contextmanager
def silence_orbax() -> Iterator[None]:
    """Hides the log of orbax, and the errors that Python prints for each array in progress.

    `dualmctx.runs.checkpoint` reports failures itself. orbax also writes to its log in threads that
    save in the background. Python prints errors when it drops the tasks that read the arrays, which
    may be long after the failure.
    """
    orbax, asyncio, hook = (
        logging.getLogger("absl"),
        logging.getLogger("asyncio"),
        sys.unraisablehook,
    )
    level = orbax.level

    def report(raised: Any) -> None:
        if str(raised.exc_value) != _CLOSED:
            hook(raised)

    orbax.setLevel(logging.CRITICAL)
    asyncio.addFilter(_is_of_another_task)
    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = hook
        asyncio.removeFilter(_is_of_another_task)
        orbax.setLevel(level)


def _is_of_another_task(record: logging.LogRecord) -> bool:
    """Returns whether a record is not about a task of tensorstore."""
    error = record.exc_info[1] if record.exc_info else None
    return _SPEC not in str(error)
