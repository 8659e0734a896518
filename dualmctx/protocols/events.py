"""Lines of the input and rows of searches, in the order in which they arrive."""

import queue
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from dualmctx.evaluation.questions import Row


class Found(NamedTuple):
    """A row of a search.

    Attributes:
      search: the number of the search.
      row: its result so far, or the last one.
    """

    search: int
    row: Row


class Events:
    """Joins a thread that reads lines with the thread of the searches.

    `next` and `next_line` are called by one thread, `put` by any.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        """Starts the thread that reads. It is a daemon, because it may wait for input forever."""
        self._queue: queue.SimpleQueue[str | Found | None] = queue.SimpleQueue()
        self._waiting: deque[str | None] = deque()
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterable[str]) -> None:
        try:
            for line in lines:
                self._queue.put(line)
        finally:
            self._queue.put(None)

    def put(self, found: Found) -> None:
        """Adds a row."""
        self._queue.put(found)

    def next(self, deadline: float | None = None) -> Any:
        """Waits for the next row or line; lines that `postpone` kept come later.

        Args:
          deadline: the time, of `time.monotonic`, at which the waiting ends; `None` for never.

        Returns:
          A `Found`, a line, `None` at the end of the input, or `LATE` after the deadline.
        """
        if deadline is None:
            return self._queue.get()
        try:
            return self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return LATE

    def postpone(self, line: str | None) -> None:
        """Keeps a line, or the end of the input, for `next_line`."""
        self._waiting.append(line)

    @property
    def is_line_waiting(self) -> bool:
        """Whether `postpone` has kept a line."""
        return bool(self._waiting)

    def next_line(self) -> str | None:
        """Waits for the next line; drops rows. `None` at the end of the input."""
        if self._waiting:
            return self._waiting.popleft()
        while True:
            event = self._queue.get()
            if not isinstance(event, Found):
                return event


LATE = object()
"""The event after a deadline."""


def read_lines(file: Iterable[bytes]) -> Iterable[str]:
    """Decodes lines as UTF-8; wrong bytes are replaced, and ends of lines removed."""
    return (line.decode(errors="replace").rstrip("\r\n") for line in file)
