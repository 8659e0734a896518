"""Waits for searches in the terminal: shows their progress, and Ctrl-C ends them early."""

import contextlib
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TextIO

from dualmctx.console import unfiltered
from dualmctx.errors import UserError
from dualmctx.evaluation.fields import Row
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.requests import Analysis
from dualmctx.web.engine import Engine

_SECONDS_PER_TICK, _QUIET_SECONDS = 0.2, 1.0


class Searched(NamedTuple):
    """The end of a search.

    Attributes:
      row: the last row; `None` if the search was stopped before its first result.
      is_stopped: whether Ctrl-C ended it.
    """

    row: Row | None
    is_stopped: bool


class Progress:
    """Shows what is being done: in a terminal one line that changes, otherwise plain lines."""

    def __init__(self, file: TextIO | None = None) -> None:
        """Takes the stream, by default standard error."""
        # On a terminal, it moves the cursor.
        self._file = unfiltered(sys.stderr) if file is None else file
        self._is_terminal = self._file.isatty()
        self._shown = ""

    def show(self, text: str, begin: float) -> None:
        """Shows a task that began at a time of `time.monotonic`, after a second of silence."""
        seconds = time.monotonic() - begin
        if seconds < _QUIET_SECONDS:
            return
        if self._is_terminal:
            line = f"{text} ({seconds:.0f} s; Ctrl-C stops it)"
            self._write("\r" + line.ljust(len(self._shown)))
            self._shown = line
        elif text != self._shown:
            self._write(f"{text} ...\n")
            self._shown = text

    def clear(self) -> None:
        """Removes the line of a terminal."""
        if self._is_terminal and self._shown:
            self._write("\r" + " " * len(self._shown) + "\r")
        self._shown = ""

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


def search(engine: Engine, question: Question, analysis: Analysis) -> Searched:
    """Searches a position and waits for the result.

    Args:
      engine: the searches of the network.
      question: the position.
      analysis: the settings of the search.

    Returns:
      The result, after Ctrl-C the one so far.

    Raises:
      ValueError: if the search failed.
      KeyboardInterrupt: at a second Ctrl-C, or after SIGTERM.
    """
    rows: queue.SimpleQueue[Row] = queue.SimpleQueue()
    progress, begin, task = Progress(), time.monotonic(), "thinking"
    name = engine.submit(question, analysis, rows.put)
    row: Row = {"final": False}
    try:
        with _interrupt(lambda: engine.cancel(name)) as stops:
            while row.get("final") is False:
                stage = engine.stage
                progress.show(task if stage is None else stage.text, begin)
                with contextlib.suppress(queue.Empty):
                    row = rows.get(timeout=_SECONDS_PER_TICK)
                    task = f"thinking, {row.get('simulations', 0)} simulations"
    finally:
        progress.clear()
    if "error" in row:
        raise UserError(row["error"])
    return Searched(row if "legal" in row else None, bool(stops))


@contextlib.contextmanager
def _interrupt(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Makes the first Ctrl-C call a function, and a second one raise `KeyboardInterrupt`.

    Yields:
      A list that is empty until the first Ctrl-C.
    """
    stops: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield stops
        return

    def interrupt(number: int, frame: object) -> None:
        stops.append(number)
        if len(stops) > 1:
            raise KeyboardInterrupt
        stop()

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield stops
    finally:
        signal.signal(signal.SIGINT, before)
