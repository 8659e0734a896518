"""Items that arrive over time: read ahead in bounded memory, and split into batches."""

import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

X = TypeVar("X")
MAX_REQUESTS = 4096
"""The largest number of requests without an answer; no further line is read before an answer."""
MAX_BYTES = 2**24
"""The largest total length of the lines of these requests, except that one line always fits."""


class Inbox(Generic[X]):
    """Items that wait for one thread, which takes them; other threads put them.

    Items with a size wait until there is room. They take up room until `release`.
    """

    def __init__(self, max_items: float = math.inf, max_size: float = math.inf) -> None:
        """Takes the largest number of items, and the largest sum of their sizes.

        One item always fits.
        """
        self._max_items, self._max_size = max_items, max_size
        self._arrived: deque[X] = deque()
        self._changed = threading.Condition()
        self._number = self._size = 0
        self._is_ended = False
        self._failure: BaseException | None = None

    def read(self, items: Iterable[X], size_of: Callable[[X], int] = lambda item: 0) -> None:
        """Puts items in a thread of their own. It is a daemon, as it may wait for input forever."""

        def put_all() -> None:
            failure = None
            try:
                for item in items:
                    self.put(item, size_of(item))
            except BaseException as error:
                failure = error
            self.end(failure)

        threading.Thread(target=put_all, daemon=True).start()

    def put(self, item: X, size: int = 0) -> None:
        """Adds an item; waits until there is room for it."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(size))
            self._number += 1
            self._size += size
            self._arrived.append(item)
            self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        fits = self._number < self._max_items and self._size + size <= self._max_size
        return fits or self._number == 0

    def end(self, failure: BaseException | None = None) -> None:
        """Ends the input, perhaps by an exception, which `take` then raises."""
        with self._changed:
            self._is_ended, self._failure = True, failure
            self._changed.notify_all()

    def wait(self) -> None:
        """Waits for an item or the end of the input."""
        with self._changed:
            self._changed.wait_for(lambda: self._arrived or self._is_ended)

    def take(self, *, wait: bool, most: int | None = None) -> list[X]:
        """Returns the items that have arrived, at most `most` of them.

        With `wait`, it waits for an item, so the result is empty only at the end of the input. An
        exception that ended the reading is raised after all items are taken.
        """
        if wait:
            self.wait()
        with self._changed:
            number = len(self._arrived) if most is None else min(most, len(self._arrived))
            taken = [self._arrived.popleft() for _ in range(number)]
            if not taken and self._is_ended and self._failure is not None:
                raise self._failure
        return taken

    def release(self, number: int, size: int = 0) -> None:
        """Makes room: `number` items of `size` in total are done."""
        with self._changed:
            self._number -= number
            self._size -= size
            self._changed.notify_all()


def full_batches(items: Iterable[X], size: int) -> Iterator[list[X]]:
    """Splits items into batches of `size` items; only the last batch may be smaller."""
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


def waiting_batches(items: Iterable[X], size: int) -> Iterator[list[X]]:
    """Splits items that arrive over time into batches of those that are waiting.

    A batch ends when it has `size` items or no further item is waiting. Before waiting for an item,
    the generator yields an empty batch, so that the caller can finish the work in progress. A
    thread reads up to two batches ahead.
    """
    inbox = Inbox[X](max_items=2 * size)
    inbox.read(items)
    while True:
        batch = inbox.take(wait=False, most=size)
        if not batch:
            yield []
            batch = inbox.take(wait=True, most=size)
        if not batch:
            return
        inbox.release(len(batch))
        yield batch
