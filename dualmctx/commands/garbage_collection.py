"""Rare garbage collections, for commands that make many rows."""

import contextlib
import gc
from collections.abc import Iterator

_OBJECTS_PER_COLLECTION = 1_000_000


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
