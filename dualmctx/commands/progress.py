"""How far a command is in its input: a bar on a terminal, a plain line now and then elsewhere."""

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 10.0

ShowFn = Callable[[int, int], None]
"""Takes how many positions are done, and where the last one ends in the input, in bytes."""


@contextlib.contextmanager
def progress(num_bytes: int | None, console: Console | None = None) -> Iterator[ShowFn]:
    """Shows on standard error how far the input is read.

    Args:
      num_bytes: of the input, which says how much is left; nothing is shown if it is `None`.
      console: where it is shown.
    """
    if num_bytes is None:
        yield lambda positions, end: None
        return
    console = console or Console(stderr=True, highlight=False)
    bar = Progress(
        TextColumn("{task.fields[positions]:,} positions"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]:,.0f} a second"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        disable=not console.is_terminal,
    )
    task = bar.add_task("", total=num_bytes, positions=0, rate=0.0)
    last = time.monotonic()
    # What was there before, or compiled, says nothing of the pace.
    first: tuple[int, int, float] | None = None

    def show(positions: int, end: int) -> None:
        nonlocal first, last
        now = time.monotonic()
        first = first or (positions, end, now)
        seconds = now - first[2]
        rate = (positions - first[0]) / max(seconds, 1e-9)
        bar.update(task, completed=end, positions=positions, rate=rate)
        if not console.is_terminal and seconds and now - last > _SECONDS_BETWEEN_LINES:
            last = now
            left = seconds * (num_bytes - end) / max(end - first[1], 1)
            console.print(
                f"{positions:,} positions  {end / num_bytes:.0%}  {rate:,.0f} a second  "
                f"{datetime.timedelta(seconds=round(left))} left",
                soft_wrap=True,
            )

    with bar:
        yield show
