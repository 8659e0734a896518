"""The requests that have arrived: a thread reads them ahead, in bounded memory."""

import threading
from collections import deque
from collections.abc import Iterable

from dualmctx.evaluation.requests import Request

MAX_REQUESTS = 4096
"""The largest number of requests without an answer; no further line is read before an answer."""
MAX_BYTES = 2**24
"""The largest total length of the lines of these requests, except that one line always fits."""


class Inbox:
    """Requests that a thread reads ahead.

    The thread waits while the requests without an answer have reached `MAX_REQUESTS` or
    `MAX_BYTES`. The main thread reports the answers with `release`.
    """

    def __init__(self, requests: Iterable[Request]) -> None:
        """Starts the thread. It is a daemon, because it may wait for input forever."""
        self._arrived: deque[Request] = deque()
        self._changed = threading.Condition()
        self._number = self._bytes = 0
        self._is_ended = False
        self._failure: BaseException | None = None
        threading.Thread(target=self._read, args=(requests,), daemon=True).start()

    def _read(self, requests: Iterable[Request]) -> None:
        try:
            for request in requests:
                with self._changed:
                    self._changed.wait_for(lambda size=request.size: self._has_room(size))
                    self._number += 1
                    self._bytes += request.size
                    self._arrived.append(request)
                    self._changed.notify_all()
        except BaseException as error:
            self._failure = error
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        fits = self._number < MAX_REQUESTS and self._bytes + size <= MAX_BYTES
        return fits or self._number == 0

    def take(self, *, wait: bool) -> list[Request]:
        """Returns all requests that have arrived.

        Args:
          wait: whether to wait for a request if there is none; the result is then empty only at the
            end of the input.

        Raises:
          BaseException: the exception that ended the reading, after all requests are taken.
        """
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._arrived or self._is_ended)
            taken = list(self._arrived)
            self._arrived.clear()
            if not taken and self._is_ended and self._failure is not None:
                raise self._failure
        return taken

    @property
    def is_empty(self) -> bool:
        """Whether no request has arrived that was not taken."""
        return not self._arrived

    def release(self, number: int, size: int) -> None:
        """Makes room: `number` requests with lines of `size` bytes in total have been answered."""
        with self._changed:
            self._number -= number
            self._bytes -= size
            self._changed.notify_all()
