"""Counts long work that a thread does, and stops it."""

from dualmctx.web.protocol import Row


class Stopped(Exception):
    """Ends work that was stopped."""


class Counter:
    """The progress of work in another thread."""

    def __init__(self) -> None:
        self._done, self._total, self._is_stopped = 0, 0, False

    def __call__(self, done: int, total: int) -> None:
        """Says that `done` of `total` parts are done; 0 for a total that is not known.

        Raises:
          Stopped: if the work is to end.
        """
        self._done, self._total = done, total
        if self._is_stopped:
            raise Stopped

    def stop(self) -> None:
        """Ends the work at its next call."""
        self._is_stopped = True

    def fields(self) -> Row:
        """Returns the fields of a message `progress`; none without a total."""
        return {"done": self._done, "total": self._total} if self._total else {}
