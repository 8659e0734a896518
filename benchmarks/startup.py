"""Times the start of the commands, with and without the compilation cache.

`python -m benchmarks.startup [--repeats N] [--json FILE]` runs each command in turns: without a
cache (`--no-cache`), with an empty cache, and again with the cache that the run before has filled.
The clock stops when the command has done its first work: at the end of `evaluate` of one position
and of `compare` with two games, at the line "ready" of `serve`, and when `train` has compiled.
Seconds are medians. The CPU's seconds count all cores, and depend less on what else the machine
does.
"""

import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from benchmarks.common import make_parser, seconds_of_children, show, with_cache, write_rows

KINDS = ("no cache", "empty cache", "filled cache")


class Start(NamedTuple):
    """A command, and the beginning of the line after which it is stopped; empty for its end."""

    arguments: str
    until: str = ""


STARTS = {
    "evaluate": Start("evaluate tic-tac-toe positions.jsonl --out results-{run}.jsonl"),
    "serve": Start("serve tic-tac-toe", "dualmctx serve: ready"),
    "compare": Start(
        "compare dual alphazero --checkpoint tic-tac-toe --games 2 --out compared-{run}"
    ),
    "train tic-tac-toe": Start("train tic-tac-toe --out tic-tac-toe-{run}", "compiled in"),
    "train connect-four": Start("train connect-four --out connect-four-{run}", "compiled in"),
}
# It compiles little.
QUICK = {
    "evaluate": STARTS["evaluate"]._replace(
        arguments=STARTS["evaluate"].arguments + " --network-only"
    )
}


class Seconds(NamedTuple):
    """The time of a start: of the clock, and of the CPU over all cores."""

    clock: float
    cpu: float


def measure(start: Start, kind: str, run: int, folder: pathlib.Path) -> Seconds:
    """Runs a command in a folder.

    Raises:
      RuntimeError: if it fails.
    """
    cache = folder / "cache"
    if kind == "empty cache":
        shutil.rmtree(cache, ignore_errors=True)
    flags = ["--no-cache"] if kind == "no cache" else []
    command = [sys.executable, "-m", "dualmctx", *start.arguments.format(run=run).split(), *flags]
    before, begin = seconds_of_children(), time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=folder,
        env=with_cache(cache),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            if start.until and line.startswith(start.until):
                break
        seconds = time.perf_counter() - begin
        if start.until:
            process.send_signal(signal.SIGTERM)
    if process.returncode not in (0, 130):
        raise RuntimeError(f"{' '.join(command)} failed: {''.join(lines)}")
    return Seconds(seconds, seconds_of_children() - before)


def main(arguments: list[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="runs of each kind")
    options = parser.parse_args(arguments)
    starts = QUICK if options.quick else STARTS
    kinds = KINDS[1:] if options.quick else KINDS
    rows = []
    for name, start in starts.items():
        found: dict[str, list[Seconds]] = {kind: [] for kind in kinds}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "positions.jsonl").write_text('{"moves": "5 1"}\n')
            for repeat in range(1 if options.quick else options.repeats):
                for number, kind in enumerate(kinds):
                    run = len(kinds) * repeat + number
                    found[kind].append(measure(start, kind, run, path))
        for kind, seconds in found.items():
            clock, cpu = (round(statistics.median(x), 1) for x in zip(*seconds, strict=True))
            rows.append({"command": name, "cache": kind, "seconds": clock, "cpu_seconds": cpu})
            print(*rows[-1].values(), flush=True)
    show("Start of a command, median seconds", rows)
    write_rows(options.json, rows)


if __name__ == "__main__":
    main()
