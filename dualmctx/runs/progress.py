"""Progress of runs and of long tasks: bars on a terminal, elsewhere a plain line at times."""

import contextlib
import datetime
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

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


class _Bars(Progress):
    """Bars with lines of text below them, so that the bars fit into a terminal of 80 columns."""

    lines: Sequence[str] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Returns the bars and the lines."""
        yield from super().get_renderables()
        yield from (Text(x, no_wrap=True, overflow="ellipsis") for x in self.lines if x)


def _make_bars(console: Console) -> _Bars:
    return _Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        disable=not console.is_terminal,
    )


class ShowFn(Protocol):
    """Shows the progress of a task."""

    def __call__(self, name: str, done: int, total: int, note: str = "") -> None:
        """Shows that `done` of `total` units of the task `name` are done, with a note."""


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
    bars = _make_bars(console)
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
        bars.lines = (note,)
        bars.update(task, completed=done, total=total, left=left)
        is_due = (ends and is_end) or time.monotonic() - last > SECONDS_BETWEEN_LINES
        if is_due and not console.is_terminal:
            last = time.monotonic()
            parts = (f"{name}: {done:,}/{total:,}", left, note)
            console.print("  ".join(filter(None, parts)), soft_wrap=True, markup=False)

    with bars:
        yield show


class Described(NamedTuple):
    """The text of a row.

    Attributes:
      lines: the lines about the iteration, for a terminal; a log file gets one line of them all.
      evals: a line about the evals; empty if there were none in this iteration.
    """

    lines: tuple[str, ...]
    evals: str


class Display:
    """Shows the progress of a run; used as a context manager around it.

    On a terminal, lines below the bar show the last iteration and the last evals. Elsewhere, a
    plain line is printed every few seconds.

    Attributes:
      console: the console for all output.
    """

    def __init__(
        self,
        num_iterations: int,
        done: int = 0,
        console: Console | None = None,
        *,
        title: str = "training",
        describe: Callable[[dict[str, Any]], Described],
    ) -> None:
        """Prepares to show the iterations after `done`, up to `num_iterations`.

        `describe` describes a row of `metrics.jsonl`; the console is by default standard output.
        """
        self.console = console or Console(highlight=False)
        self._describe, self._num_iterations = describe, num_iterations
        self._last_line = 0.0
        # Starts at the end of the first iteration, and includes the time of evals.
        self._pace = Pace()
        self._bars = _make_bars(self.console)
        self._bars.lines = ("compiling …", "")
        self._task = self._bars.add_task(title, total=num_iterations, completed=done, left="")

    def __enter__(self) -> "Display":
        """Starts the bar."""
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the bar; it stays visible on the terminal."""
        self._bars.stop()

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        self.console.print(text, soft_wrap=True, markup=False)

    def show(self, row: dict[str, Any]) -> None:
        """Shows an iteration, given as a row of `metrics.jsonl`."""
        self._pace.report(row["iteration"])
        lines, evals = self._describe(row)
        left = self._pace.left(self._num_iterations)
        last_evals = f"iteration {row['iteration']}: {evals}" if evals else self._bars.lines[-1]
        self._bars.lines = (*lines, last_evals)
        self._bars.update(self._task, completed=row["iteration"], left=left)
        is_due = time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES
        if evals or (is_due and not self.console.is_terminal):
            self._last_line = time.monotonic()
            total = str(self._num_iterations)
            head = f"{row['iteration']:>{len(total)}}/{total}  {row['seconds']:7.1f} s  "
            self.say(head + "  ".join(filter(None, (*lines, left))))
            if evals and evals not in lines:
                self.say(f"{'':11}{evals}")
