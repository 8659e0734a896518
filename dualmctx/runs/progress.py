"""Progress of a long task: a bar on a terminal, elsewhere a plain line every few seconds."""

import contextlib
import datetime
import time
from collections.abc import Iterable, Iterator
from typing import Protocol

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from dualmctx.console import Console

SECONDS_BETWEEN_LINES = 10.0
"""The minimum time between two plain lines."""


class Pace:
    """The pace of a task, measured from its first report.

    Work and compilation before the first report are excluded.
    """

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)

    def report(self, done: float) -> None:
        """Records the amount of work done so far."""
        self._last = (done, time.monotonic())
        self._first = self._first or self._last

    @property
    def rate(self) -> float:
        """The work done per second; 0 while it is unknown."""
        (before, since), (done, now) = self._first or self._last, self._last
        return (done - before) / (now - since) if now > since else 0.0

    def left(self, total: float) -> str:
        """Describes the time left, as in `0:03:00 left`; empty while it is unknown."""
        if self.rate <= 0:
            return ""
        seconds = round(max(0.0, total - self._last[0]) / self.rate)
        return f"{datetime.timedelta(seconds=seconds)} left"


class ShowFn(Protocol):
    """Shows the progress of a task."""

    def __call__(self, name: str, done: int, total: int, note: str = "") -> None:
        """Shows that `done` of `total` units of the task `name` are done, with a note."""


class _Bars(Progress):
    """Bars with a line of text below them, so that the bars fit into a terminal of 80 columns."""

    note = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Returns the bars and the note about the last report."""
        yield from super().get_renderables()
        if self.note:
            yield Text(self.note, no_wrap=True, overflow="ellipsis")


@contextlib.contextmanager
def showing(console: Console | None = None, *, ends: bool = True) -> Iterator[ShowFn]:
    """Shows the progress of tasks and the time left.

    Args:
      console: the console, by default standard error.
      ends: whether, without a terminal, the first and the last report of a task always print a
        line.

    Yields:
      A function to call often; it shows one bar per task, and the last note below them.
    """
    console = console or Console(stderr=True, highlight=False)
    bars = _Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        disable=not console.is_terminal,
    )
    tasks: dict[str, tuple[TaskID, Pace]] = {}
    last = time.monotonic()

    def show(name: str, done: int, total: int, note: str = "") -> None:
        nonlocal last
        is_end = name not in tasks or done == total
        if name not in tasks:
            tasks[name] = bars.add_task(name, total=total, left=""), Pace()
        task, pace = tasks[name]
        pace.report(done)
        left = pace.left(total) if done < total else ""
        bars.note = note
        bars.update(task, completed=done, total=total, left=left)
        is_due = (ends and is_end) or time.monotonic() - last > SECONDS_BETWEEN_LINES
        if is_due and not console.is_terminal:
            last = time.monotonic()
            parts = (f"{name}: {done:,}/{total:,}", left, note)
            console.print("  ".join(filter(None, parts)), soft_wrap=True, markup=False)

    with bars:
        yield show
