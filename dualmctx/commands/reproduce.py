"""`dualmctx reproduce --out FOLDER`: the experiments of the Dual MCTS paper, on this machine."""

import contextlib
import dataclasses
import datetime
import importlib
import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dualmctx.cli import Unprefixed, parse_flags
from dualmctx.reports.machine import machine, versions
from dualmctx.reproduction.experiments import QUICK, Size
from dualmctx.reproduction.report import write_report
from dualmctx.reproduction.stages import Experiment, ShowFn, check_experiment, run_experiment
from dualmctx.runs import check_new, create_run, reopen_run, to_dict

_PROGRAM = "dualmctx reproduce"
_DESCRIPTION = """Trains AlphaZero, MPV-MCTS and Dual MCTS on the paper's games, has their
checkpoints play each other, and writes a report beside the paper's numbers: report.html, report.md,
report.json. --quick is a small size, of minutes, that shows that it works. docs/reproduce.md says
what is measured, how, and how long the full size takes. The exit code is 0, 2 for bad input, and
130 after Ctrl-C; --resume goes on."""
_SECONDS_BETWEEN_LINES = 10.0


@dataclasses.dataclass(frozen=True)
class Options:
    """What is reproduced, and where the results go."""

    out: str = "runs/reproduce"
    """The folder of runs, games and report."""
    games: tuple[Literal["hsr", "nim", "connect-four"], ...] = ("hsr", "nim", "connect-four")
    """The paper's games."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """A run of each algorithm with each; intervals are over them."""
    comparisons: tuple[Literal["paper", "best", "cost", "seconds"], ...] = (
        *("paper", "best"),
        *("cost", "seconds"),
    )
    """The paper's setting; and this project's Dual at equal simulations, equal network cost, and
    equal seconds a move."""
    quick: bool = False
    """A small size, two games, one seed and the paper's setting alone, but for what flags say."""
    resume: bool = False
    """Go on with what is in the folder; games, seeds and comparisons may be added."""
    size: Unprefixed[Size] = dataclasses.field(default_factory=Size)
    """How large it is."""

    def __post_init__(self) -> None:
        """Checks what no part of the program checks by itself."""
        for name in ("games", "seeds", "comparisons"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                shown = " ".join(map(str, values)) or "empty"
                raise ValueError(f"{name} is {shown}; it must be some, each once")
        if not all(0 <= seed < 2**32 for seed in self.seeds):
            raise ValueError(f"seeds is {self.seeds}; each must be from 0 to {2**32 - 1}")


_QUICK = Options(
    games=("nim", "connect-four"), seeds=(0,), comparisons=("paper",), quick=True, size=QUICK
)


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    default = _QUICK if "--quick" in arguments else Options()
    options = parse_flags(default, arguments, _PROGRAM, _DESCRIPTION)
    _require_open_spiel()
    out = Path(options.out)
    experiments = [
        Experiment(game, options.size, options.seeds, options.comparisons, out / game)
        for game in options.games
    ]
    record = {"size": to_dict(options.size)}
    if options.resume:
        reopen_run(out, record)
    else:
        check_new(out)
    for experiment in experiments:
        check_experiment(experiment)
    if not options.resume:
        create_run(out, record)
    report = {
        "command": shlex.join(["dualmctx", "reproduce", *arguments]),
        **record,
        "machine": machine() | versions(),
        "games": earlier_games(out),
    }
    try:
        for experiment in experiments:
            with showing() as show:
                found = run_experiment(experiment, show)
            earlier = report["games"].get(experiment.game, {})
            report["games"][experiment.game] = earlier | found
            # What is there may be read while the next game is played.
            files = write_report(report, out)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f": all finished steps and games are in {out}, and --resume goes on"
        ) from None
    print(f"written: {', '.join(map(str, files))}")
    return 0


def _require_open_spiel() -> None:
    """Refuses to begin without α-rank: what comes last should not fail after hours."""
    try:
        importlib.import_module("open_spiel.python.egt.alpharank")
    except ImportError as error:
        raise ValueError(
            f'α-rank needs OpenSpiel ({error}): pip install "dualmctx[compare]"'
        ) from None


def earlier_games(out: Path) -> dict[str, Any]:
    """Reads what an earlier report in a folder says of its games; nothing if there is none."""
    file = out / "report.json"
    try:
        return json.loads(file.read_text())["games"] if file.exists() else {}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{file} cannot be read ({error}); remove it, and it is made anew"
        ) from error


@contextlib.contextmanager
def showing(console: Console | None = None) -> Iterator[ShowFn]:
    """Shows on standard error what is being done, how far it is and the time left.

    A bar for each part on a terminal; elsewhere a line when one begins or ends, and now and then.
    """
    console = console or Console(stderr=True, highlight=False)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    tasks, begun, last = {}, {}, 0.0

    def show(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total)
        # What was there before says nothing of the pace.
        first, since = begun.setdefault(what, (done, now))
        bar.update(tasks[what], completed=done)
        is_due = done in (first, total) or now - last > _SECONDS_BETWEEN_LINES
        if console.is_terminal or not is_due:
            return
        last, left = now, ""
        if first < done < total:
            seconds = (now - since) * (total - done) / (done - first)
            left = f"  {datetime.timedelta(seconds=round(seconds))} left"
        console.print(f"{what}: {done:,}/{total:,}{left}", soft_wrap=True)

    with bar:
        yield show
