"""Asking a run to stop: Ctrl-C by a person, SIGTERM by whatever has started it."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What asks a run to stop."""
# Some launchers send a signal to a process and then to its group, which it is in.
_SECONDS_OF_ONE_REQUEST = 1.0


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Has SIGTERM raise `KeyboardInterrupt`, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def stopped_on_request(say: Callable[[str], None]) -> Iterator[list[float]]:
    """Turns the first Ctrl-C or SIGTERM into a request; a later one stops at once.

    Args:
      say: prints a line, from within the handler of the signal.

    Yields:
      A list that is empty until there is a request.
    """
    stop: list[float] = []

    def request(number: int, frame: Any) -> None:
        now = time.monotonic()
        if not stop:
            stop.append(now)
            say("finishing this iteration, then saving (Ctrl-C again stops at once) …")
        elif now - stop[0] > _SECONDS_OF_ONE_REQUEST:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, request) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
