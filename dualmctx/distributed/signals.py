"""Stopping a run: Ctrl-C from a person, SIGTERM from a scheduler."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask a run to stop."""
# Some launchers signal a process and then its process group, so one request arrives twice.
_SECONDS_OF_ONE_REQUEST = 1.0
# JAX's callback for garbage collections, in which Python drops exceptions. The signal is repeated.
_DROPPING, _SECONDS_TO_REPEAT = ("_xla_gc_callback",), 0.05


@contextlib.contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Makes SIGTERM raise `KeyboardInterrupt`, as Ctrl-C does.

    Further signals within a second count as the same request, so that they do not disturb the
    clean-up. Signals that the process ignores, as a background job of a shell script ignores
    Ctrl-C, stay ignored. Outside the main thread, which alone may handle signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stop: list[float] = []

    def interrupt(number: int, frame: Any) -> None:
        if frame is not None and frame.f_code.co_name in _DROPPING:
            again = threading.Timer(_SECONDS_TO_REPEAT, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        now = time.monotonic()
        if not stop or now - stop[0] > _SECONDS_OF_ONE_REQUEST:
            stop[:] = [now]
            raise KeyboardInterrupt

    with _handled_by(interrupt):
        yield


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handles `SIGNALS`, except ignored ones, by a function."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    handled = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in handled:
            # A handler that was not installed from Python, which is None here, cannot be restored.
            signal.signal(number, before[number] or signal.SIG_DFL)


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
            # The signal may have arrived while the same stream was being written.
            with contextlib.suppress(RuntimeError):
                say("finishing this iteration, then saving (Ctrl-C again stops immediately) …")
        elif now - stop[0] > _SECONDS_OF_ONE_REQUEST:
            raise KeyboardInterrupt

    with _handled_by(request):
        yield stop
