"""Measures how soon `dualmctx play` answers: from the start of the server to its first move.

The server is started with an empty compilation cache, and then with the cache of the first start.
The columns are the seconds until the server prints its address, the seconds from then until the
first move, and the processor time of the server in seconds, which other programs hardly change.
The move is asked for as soon as the page could be open.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from websockets.sync.client import connect

from benchmarks.common import make_parser, seconds_of_children, show, with_cache, write_rows

CACHES = ("empty", "full")


class Seconds(NamedTuple):
    """Seconds until the address, from then to the move, and of the processor."""

    address: float
    move: float
    processor: float


def measure(
    checkpoint: str, simulations: int, cache: pathlib.Path, flags: Sequence[str] = ()
) -> Seconds:
    """Starts a server with the cache in a folder, and asks it for one move."""
    command = [sys.executable, "-m", "dualmctx", "play", checkpoint, "--port", "0", "--no-browser"]
    command += flags
    before, begin = seconds_of_children(), time.perf_counter()
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=with_cache(cache)
    ) as server:
        lines = []
        for line in server.stderr or ():
            lines.append(line)
            if found := re.search(r"http://(\S+)", line):
                break
        else:
            raise RuntimeError(f"{' '.join(command)} failed: {''.join(lines)}")
        printed = time.perf_counter() - begin
        answer = _ask(found[1], {"checkpoint": checkpoint, "simulations": simulations})
        answered = time.perf_counter() - begin
        server.terminate()
    if answer["type"] != "searched":
        raise RuntimeError(answer["message"])
    return Seconds(printed, answered - printed, seconds_of_children() - before)


def _ask(address: str, fields: dict) -> dict:
    """Returns the answer to a message `search`."""
    with connect(f"ws://{address}socket") as socket:
        socket.send(json.dumps({"type": "search", **fields}))
        while (answer := json.loads(socket.recv()))["type"] == "progress":
            pass
        return answer


def main(arguments: list[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--checkpoint", default="connect-four", help="the network")
    parser.add_argument("--simulations", type=int, default=85, metavar="N", help="of the move")
    options = parser.parse_args(arguments)
    checkpoint, flags = options.checkpoint, []
    if options.quick:
        # A search that is compiled soon.
        checkpoint, flags = "connect2", ["--variant", "alphazero"]
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for name in CACHES:
            seconds = measure(checkpoint, options.simulations, pathlib.Path(cache), flags)
            rounded = {k: round(x, 1) for k, x in seconds._asdict().items()}
            rows.append({"network": checkpoint, "cache": name} | rounded)
            print(*rows[-1].values(), flush=True)
    show("First move of dualmctx play, seconds", rows)
    write_rows(options.json, rows)


if __name__ == "__main__":
    main()
