"""Stopping a run: Ctrl-C from a person, SIGTERM from a scheduler."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask a run to stop."""
# Some launchers signal a process and then its process group, so one request arrives twice.
_SECONDS_OF_ONE_REQUEST = 1.0


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Makes SIGTERM raise `KeyboardInterrupt`, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def stopped_on_request(say: Callable[[str], None]) -> Iterator[list[float]]:
    """Records the first Ctrl-C or SIGTERM as a request to stop; a later one stops immediately.

    Args:
      say: prints a line; called from the signal handler.

    Yields:
      A list that is empty until there is a request.

    Raises:
      KeyboardInterrupt: at a second signal, more than a second after the first.
    """
    stop: list[float] = []

    def request(number: int, frame: Any) -> None:
        now = time.monotonic()
        if not stop:
            stop.append(now)
            say("finishing this iteration, then saving (Ctrl-C again stops immediately) …")
        elif now - stop[0] > _SECONDS_OF_ONE_REQUEST:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, request) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
