"""The work of the host in `dualmctx evaluate`: `python -m benchmarks.evaluation --host`.

The parts that run on the host are timed without the device: reading lines and parsing moves,
describing evaluations and writing their rows, and merging the rows into the results. The last row
is the whole command after compilation, with a trivial network (dense layers of four features) and
one simulation, in which the replay, the network and the search run on this machine's device.

Positions of Connect Four have 4 to 15 random moves, and about six legal moves. Times are medians of
the CPU seconds of the process, so other work on the machine counts little.
"""

import contextlib
import io
import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import dualmctx
import games
from benchmarks.common import make_params, show, write_json
from dualmctx.commands.evaluate import Task, write_file
from dualmctx.commands.process_settings import rare_collections
from dualmctx.commands.source import open_source
from dualmctx.evaluation.answers import describe
from dualmctx.evaluation.batches import full_batches
from dualmctx.evaluation.evaluations import Evaluations, digest
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.positions_file import read_json_lines
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.results_file import write_results
from dualmctx.evaluation.results_state import Results
from dualmctx.runs.journal import Journal, read_lines
from games.parsed_moves import parse_lines

_MOVES = 64


class HostRow(NamedTuple):
    """A part of the host's work, or the whole command."""

    part: str
    microseconds_per_row: float
    rows_per_second: float


class _Outcome(NamedTuple):
    """The errors of a batch, by the index of the position, and its evaluations on the host."""

    errors: dict[int, str]
    evaluations: Evaluations


class _Work(NamedTuple):
    """An evaluator, its positions as JSON Lines, and the outcome of each batch on the device."""

    evaluator: Evaluator
    data: bytes
    batches: list[list[Question]]
    outcomes: list[_Outcome]


def run_host(
    number: int, batch_sizes: Sequence[int], repeats: int, json_file: pathlib.Path | None
) -> None:
    """Measures every batch size and prints a table of each."""
    found = {}
    for batch_size in batch_sizes:
        rows = [row._asdict() for row in measure_host(number, batch_size, repeats)]
        found[batch_size] = rows
        device = jax.devices()[0].device_kind
        show(f"{number} positions, batches of {batch_size}, JAX {jax.__version__}, {device}", rows)
    write_json(json_file, found)


def measure_host(number: int, batch_size: int, repeats: int) -> list[HostRow]:
    """Times the parts of the host's work, their sum and the whole command."""
    work = _make_work(number, batch_size)
    with tempfile.TemporaryDirectory() as folder, rare_collections():
        file = pathlib.Path(folder) / "rows"
        seconds = {
            "read": _median(lambda: _read(work), repeats),
            "describe and write": _median(lambda: _write(work, file), repeats),
            "merge": _median(lambda: _merge(file), repeats),
        }
        seconds["host"] = sum(seconds.values())
        seconds["command"] = _median(lambda: _run_command(work), repeats)
    each = {part: x / number for part, x in seconds.items()}
    return [HostRow(part, round(1e6 * x, 2), round(1 / x)) for part, x in each.items()]


def _median(run: Callable[[], Any], repeats: int) -> float:
    """Returns the median CPU seconds of a function, after one run that is not timed."""
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def _make_work(number: int, batch_size: int) -> _Work:
    env = games.make("connect_four")
    network = dualmctx.make_network(
        env.num_actions, env.observation_shape, trunk="mlp", width=4, num_blocks=1
    )
    params = make_params(network, jax.vmap(env.init)(jax.random.split(jax.random.key(0), 1)), 0)
    evaluator = dualmctx.make_evaluator(
        env, network, params, dualmctx.AlphaZero(1), batch_size=batch_size
    )
    data = b"".join(_position_lines(number))
    batches = list(full_batches(read_json_lines(io.BytesIO(data)), batch_size))
    return _Work(evaluator, data, batches, [_evaluate(evaluator, batch) for batch in batches])


def _position_lines(number: int) -> Iterator[bytes]:
    """Yields legal positions after 4 to 15 random moves; nobody has won in most of them."""
    draws = np.random.default_rng(0)
    slots = np.repeat(np.arange(1, 8), 6)
    for i in range(number):
        moves = "".join(map(str, draws.permutation(slots)[: draws.integers(4, 16)]))
        yield json.dumps({"id": f"position-{i}", "moves": moves}).encode() + b"\n"


def _evaluate(evaluator: Evaluator, batch: list[Question]) -> _Outcome:
    opened = games.open_positions(evaluator.env, batch, evaluator.batch_size)
    digests = np.zeros((evaluator.batch_size, 2), np.uint32)
    found = jax.device_get(evaluator.run(digests, opened.states))
    return _Outcome(opened.errors, found)


def _read(work: _Work) -> None:
    evaluator = work.evaluator
    for batch in full_batches(read_json_lines(io.BytesIO(work.data)), evaluator.batch_size):
        parse_lines(evaluator.env, batch).table(0, evaluator.batch_size, _MOVES)
        digest(question.id for question in batch)


def _write(work: _Work, file: pathlib.Path) -> None:
    file.unlink(missing_ok=True)
    part = Journal(file)
    for batch, outcome in zip(work.batches, work.outcomes, strict=True):
        part.append(describe(work.evaluator.env, batch, *outcome, contexts=None).rows)


def _merge(file: pathlib.Path) -> None:
    lines = (line.data for line in read_lines(file))
    write_results(lines, file.with_name("results.jsonl"))


def _run_command(work: _Work) -> None:
    """Evaluates a file of positions as `dualmctx evaluate --out` does."""
    with tempfile.TemporaryDirectory() as folder:
        positions, out = (pathlib.Path(folder) / name for name in ("p.jsonl", "results.jsonl"))
        positions.write_bytes(work.data)
        with open_source(str(positions)) as source, contextlib.redirect_stderr(io.StringIO()):
            write_file(Task(work.evaluator, source, strict=False), Results(out, {}), resume=False)
