"""The display of a run: live lines on a terminal, plain lines in a log file."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from dualmctx.console import Console
from dualmctx.runs.progress import SECONDS_BETWEEN_LINES, Pace


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

    On a terminal, the live lines show the progress with the time left, the lines about the last
    iteration, and the last evals. Elsewhere, a plain line is printed every few seconds.

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
        describe: Callable[[dict[str, Any]], Described] | None = None,
    ) -> None:
        """Prepares to show the iterations after `done`, up to `num_iterations`.

        Args:
          num_iterations: the number of iterations of the whole run.
          done: the number of iterations completed by earlier processes.
          console: the console, by default standard output.
          title: the text before the bar.
          describe: describes a row of `metrics.jsonl`; by default `describe_training`.
        """
        self.console = console or Console(highlight=False)
        self._describe = describe or describe_training
        self._last_line = 0.0
        # Starts at the end of the first iteration, and includes the time of evals.
        self._pace = Pace()
        self._lines = ["compiling …", ""]
        self._progress = Progress(
            TextColumn(title, markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
        )
        self._task = self._progress.add_task("", total=num_iterations, completed=done, left="")
        self._num_iterations = num_iterations
        self._live = Live(get_renderable=self._render, console=self.console, refresh_per_second=4)

    def _render(self) -> Group:
        lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in self._lines if line]
        return Group(self._progress, *lines)

    def __enter__(self) -> "Display":
        """Starts the live lines."""
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops the live lines; they stay visible on the terminal."""
        if self.console.is_terminal:
            self._live.stop()

    def say(self, text: str) -> None:
        """Prints a line above the live lines."""
        self.console.print(text, soft_wrap=True, markup=False)

    def show(self, row: dict[str, Any]) -> None:
        """Shows an iteration, given as a row of `metrics.jsonl`."""
        self._pace.report(row["iteration"])
        lines, evals = self._describe(row)
        left = self._pace.left(self._num_iterations)
        last_evals = f"iteration {row['iteration']}: {evals}" if evals else self._lines[-1]
        self._lines = [*lines, last_evals]
        self._progress.update(self._task, completed=row["iteration"], left=left)
        is_due = time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES
        if evals or (is_due and not self.console.is_terminal):
            self._last_line = time.monotonic()
            total = str(self._num_iterations)
            head = f"{row['iteration']:>{len(total)}}/{total}  {row['seconds']:7.1f} s  "
            self.say(head + "  ".join(filter(None, (*lines, left))))
            if evals and evals not in lines:
                self.say(f"{'':11}{evals}")


def describe_training(row: dict[str, Any]) -> Described:
    """Describes a row of self-play training: rates, losses and, if there were any, evals."""
    return Described((describe_rates(row), describe_losses(row)), describe_evals(row))


def describe_rates(row: dict[str, Any]) -> str:
    """Describes the speed of an iteration."""
    return (
        f"{row['games_per_second']:,.1f} games/s  "
        f"{row['positions_per_second']:,.0f} positions/s  "
        f"{row['simulations_per_second']:,.0f} simulations/s"
    )


def describe_losses(row: dict[str, Any]) -> str:
    """Describes the losses of the final head in an iteration."""
    last = max(int(name.rsplit("_", 1)[1]) for name in row if name.startswith("policy_loss_"))
    return f"loss policy {row[f'policy_loss_{last}']:.3f} value {row[f'value_loss_{last}']:.3f}"


def describe_evals(row: dict[str, Any]) -> str:
    """Describes the results of evals as one line of text."""
    parts = []
    # The last evals use all positions, the others may use a sample.
    for scope, label in (("path", "optimal path"), ("exact", describe_positions(row))):
        if f"{scope}/search_optimal" in row:
            network = row[f"{scope}/network_optimal"]
            search = row[f"{scope}/search_optimal"]
            parts.append(f"{label}: network {network:.1%}, search {search:.1%} optimal")
    for opponent in ("random", "perfect"):
        if f"{opponent}/win_share" in row:
            parts.append(f"against {opponent}: {describe_score(row, opponent)}")
    return "; ".join(parts)


def describe_positions(row: dict[str, Any]) -> str:
    """Returns the number of positions with exact values, if a row has it."""
    return f"{row['exact_positions']:,} positions" if "exact_positions" in row else "positions"


def describe_score(row: dict[str, Any], opponent: str) -> str:
    """Formats the numbers of games won, drawn and lost against an opponent."""
    counts = [
        row[f"{opponent}/first_{name}"] + row[f"{opponent}/second_{name}"]
        for name in ("wins", "draws", "losses")
    ]
    return "+{} ={} −{}".format(*counts)
