"""Splits input into batches: full batches of a file, or the waiting items of a stream."""

import itertools
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

X = TypeVar("X")


def full_batches(items: Iterable[X], size: int) -> Iterator[list[X]]:
    """Splits items into batches of `size` items; only the last batch may be smaller."""
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


def waiting_batches(items: Iterable[X], size: int) -> Iterator[list[X]]:
    """Splits items that arrive over time into batches of those that are waiting.

    A batch ends when it has `size` items or no further item is waiting. Before waiting for an item,
    the generator yields an empty batch, so that the caller can finish the work in progress.

    Args:
      items: the items; a thread reads them up to two batches ahead. Exceptions of the iterator are
        raised here.
      size: maximum size of a batch.
    """
    end = object()
    waiting: queue.Queue[Any] = queue.Queue(2 * size)
    failure: list[BaseException] = []

    def read() -> None:
        try:
            for item in items:
                waiting.put(item)
        except BaseException as error:
            failure.append(error)
        waiting.put(end)

    # A daemon thread, because it may wait for input forever.
    threading.Thread(target=read, daemon=True).start()
    item = None
    while item is not end:
        if waiting.empty():
            yield []
        batch: list[X] = []
        while len(batch) < size and (not batch or not waiting.empty()):
            item = waiting.get()
            if item is end:
                break
            batch.append(item)
        if batch:
            yield batch
    if failure:
        raise failure[0]
