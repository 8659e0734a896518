"""How far something long is: a bar on a terminal, a plain line now and then elsewhere."""

import contextlib
import datetime
import time
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

SECONDS_BETWEEN_LINES = 10.0


class Pace:
    """How fast something goes, from its first report on.

    What was done before that, or compiled, says nothing of the pace.
    """

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)

    def report(self, done: float) -> None:
        """Takes how much is done by now, of whatever is counted."""
        self._last = (done, time.monotonic())
        self._first = self._first or self._last

    @property
    def rate(self) -> float:
        """How much is done in a second; 0 as long as nobody knows."""
        (before, since), (done, now) = self._first or self._last, self._last
        return (done - before) / (now - since) if now > since else 0.0

    def left(self, total: float) -> str:
        """Describes the time left, as in `0:03:00 left`; nothing as long as nobody knows."""
        if self.rate <= 0:
            return ""
        seconds = round(max(0.0, total - self._last[0]) / self.rate)
        return f"{datetime.timedelta(seconds=seconds)} left"


class ShowFn(Protocol):
    """Takes how much of something is done, and what else is to be said of it."""

    def __call__(self, what: str, done: int, total: int, note: str = "") -> None:
        """Shows it."""


@contextlib.contextmanager
def showing(console: Console | None = None, *, ends: bool = True) -> Iterator[ShowFn]:
    """Shows how far something is, and the time left.

    Args:
      console: where it is shown, by default standard error.
      ends: whether a line, where there are no bars, also tells of each beginning and end.

    Yields:
      What is to be called now and then; it shows a bar for each `what`.
    """
    console = console or Console(stderr=True, highlight=False)
    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[note]}", markup=False),
        console=console,
        disable=not console.is_terminal,
    )
    parts: dict[str, tuple[TaskID, Pace]] = {}
    last = time.monotonic()

    def show(what: str, done: int, total: int, note: str = "") -> None:
        nonlocal last
        is_end = what not in parts or done == total
        if what not in parts:
            parts[what] = bars.add_task(what, total=total, left="", note=""), Pace()
        task, pace = parts[what]
        pace.report(done)
        left = pace.left(total) if done < total else ""
        bars.update(task, completed=done, total=total, left=left, note=note)
        is_due = (ends and is_end) or time.monotonic() - last > SECONDS_BETWEEN_LINES
        if is_due and not console.is_terminal:
            last = time.monotonic()
            words = (f"{what}: {done:,}/{total:,}", left, note)
            console.print("  ".join(filter(None, words)), soft_wrap=True, markup=False)

    with bars:
        yield show
