"""Measures the time from the start of `dualmctx play` to its first move.

Usage: python benchmarks/first_move.py [CHECKPOINT [SIMULATIONS]]

It starts the server twice: first with an empty compilation cache, then with the cache of the first
start. Each row has the seconds until the address is printed and until the move is answered, and
the processor time of the server in seconds, which other programs of the computer hardly change.
"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

from websockets.sync.client import connect


def processor_seconds() -> float:
    """Returns the processor time of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(checkpoint: str, simulations: int, cache: str) -> tuple[float, float, float]:
    """Returns the seconds until the address and until the move, and the processor time."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-m", "dualmctx", "play", checkpoint, "--port", "0", "--no-browser"]
    before, begin = processor_seconds(), time.monotonic()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        address = next(found[1] for line in server.stderr if (found := re.search(r"//(\S+)", line)))
        printed = time.monotonic() - begin
        fields = {"type": "search", "checkpoint": checkpoint, "simulations": simulations}
        with connect(f"ws://{address}socket") as socket:
            socket.send(json.dumps(fields))
            while (answer := json.loads(socket.recv()))["type"] == "progress":
                pass
        answered = time.monotonic() - begin
        server.terminate()
    if answer["type"] != "searched":
        raise SystemExit(answer["message"])
    return printed, answered, processor_seconds() - before


def main() -> None:
    """Prints the table."""
    checkpoint = sys.argv[1] if len(sys.argv) > 1 else "connect-four"
    simulations = int(sys.argv[2]) if len(sys.argv) > 2 else 85
    print("| cache | address | first move | processor time |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as cache:
        for name in ("empty", "full"):
            times = measure(checkpoint, simulations, cache)
            print(f"| {name} | {' | '.join(f'{x:.1f} s' for x in times)} |", flush=True)


if __name__ == "__main__":
    main()
