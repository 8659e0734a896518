"""Batches of what comes in: full ones of a file, or of a stream whatever is waiting."""

import itertools
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

X = TypeVar("X")


def full_batches(items: Iterable[X], size: int) -> Iterator[list[X]]:
    """Cuts items into batches of a size, of which only the last may be smaller."""
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


def waiting_batches(items: Iterable[X], size: int) -> Iterator[list[X]]:
    """Cuts items that come in slowly into batches of those that are waiting.

    A batch ends when it has `size` items or no further one is waiting. Before it waits for an item
    it yields an empty batch, so that what is on its way can be finished first.

    Args:
      items: read in a thread, a few batches ahead; what it raises is raised here.
      size: of a batch, at most.
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

    # A daemon: it may wait for input that never comes.
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
