"""Times the start of the commands, with and without the compilation cache.

`python -m benchmarks.startup [--repeats N] [--json FILE]` runs each command without a cache, with
an empty one and with a filled one, in turns. The clock stops when the command has done its first
work: at the end of `evaluate` of one position and of `compare` with two games, at the line "ready"
of `serve`, when `train` has compiled, and when `play` has answered a request for a move; `address`
is the part of the time until it prints its address. Seconds are medians. The CPU's seconds count
all cores, and depend less on what else the machine does.
"""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from websockets.sync.client import connect

from benchmarks.common import make_parser, show
from benchmarks.ledger import write_measurement

KINDS = ("no cache", "empty cache", "filled cache")


class Start(NamedTuple):
    """A command, a text, and a request.

    The command is stopped after the first line with the text. Without a text, it runs to its end.
    The request is of a move from the page's server, whose address that line has.
    """

    arguments: str
    until: str = ""
    request: dict[str, object] | None = None


_PLAY = {"checkpoint": "connect-four", "simulations": 85}
STARTS = {
    "evaluate": Start("evaluate tic-tac-toe positions.jsonl --out results-{run}.jsonl"),
    "serve": Start("serve tic-tac-toe", "dualmctx serve: ready"),
    "compare": Start(
        "compare dual alphazero --checkpoint tic-tac-toe --games 2 --out compared-{run}"
    ),
    "train tic-tac-toe": Start("train tic-tac-toe --out tic-tac-toe-{run}", "compiled in"),
    "train connect-four": Start("train connect-four --out connect-four-{run}", "compiled in"),
    "play": Start("play connect-four --port 0 --no-browser", "http://", _PLAY),
}
# They compile little or nothing.
QUICK = {
    "evaluate": Start("evaluate --help"),
    "play": Start(
        "play connect2 --port 0 --no-browser --variant alphazero",
        "http://",
        {"checkpoint": "connect2", "simulations": 85},
    ),
}


class Seconds(NamedTuple):
    """The time of a start: of the clock, of the CPU over all cores, and until an address."""

    clock: float
    cpu: float
    address: float


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
    before, begin, address = _seconds_of_children(), time.perf_counter(), 0.0
    with subprocess.Popen(
        command,
        cwd=folder,
        env=_with_cache(cache),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            if start.until and start.until in line:
                break
        if start.request and (found := re.search(r"http://(\S+)", "".join(lines))):
            address = time.perf_counter() - begin
            _request_move(found[1], start.request)
        seconds = time.perf_counter() - begin
        if start.until:
            process.send_signal(signal.SIGTERM)
    if process.returncode not in (0, 130) or (start.request and not address):
        raise RuntimeError(f"{' '.join(command)} failed: {''.join(lines)}")
    return Seconds(seconds, _seconds_of_children() - before, address)


def _request_move(address: str, request: dict[str, object]) -> None:
    """Waits for the move of a search.

    Raises:
      RuntimeError: if the server answers with an error.
    """
    with connect(f"ws://{address}socket") as socket:
        socket.send(json.dumps({"type": "search", **request}))
        while (answer := json.loads(socket.recv()))["type"] == "progress":
            pass
    if answer["type"] != "searched":
        raise RuntimeError(answer["message"])


def _with_cache(folder: pathlib.Path) -> dict[str, str]:
    """Returns the environment of a command whose compilation cache is in a folder."""
    kept = {k: x for k, x in os.environ.items() if not k.startswith("JAX_COMPILATION_CACHE")}
    return kept | {"XDG_CACHE_HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}


def _seconds_of_children() -> float:
    """Returns the processor time of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    options = make_parser(__doc__, repeats=3).parse_args(arguments)
    starts = QUICK if options.quick else STARTS
    # The quick run has the empty cache alone.
    kinds = KINDS[1:2] if options.quick else KINDS
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
        for kind, runs in found.items():
            medians = (round(statistics.median(x), 1) for x in zip(*runs, strict=True))
            names = ("seconds", "cpu_seconds", "address")
            rows.append({"command": name, "cache": kind, **dict(zip(names, medians, strict=True))})
            print(*rows[-1].values(), flush=True)
    show("Start of a command, median seconds", rows)
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
