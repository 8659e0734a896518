"""`dualmctx evaluate CHECKPOINT POSITIONS --out RESULTS`: what a search says of many positions."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import jax

from dualmctx.commands.flags import REQUIRED, Positional, Unprefixed, named, parse_flags
from dualmctx.commands.result_writer import Task, write_file, write_out
from dualmctx.commands.search_options import SearchFlags, load_search
from dualmctx.commands.source import STANDARD, open_source
from dualmctx.distributed.processes import is_first, join, require_same
from dualmctx.evaluation.parts import Results, part_file
from dualmctx.evaluation.results_file import check_results
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.training.config import check_processes
from dualmctx.training.divergence import FAILURES, first_line

_PROGRAM = "dualmctx evaluate"
_DESCRIPTION = """Evaluates positions by a network and a search: the best move, values, visits and Q
of every legal move, the principal variation, what the network alone says. A position that cannot be
read gets a row that says why. The exit code is 0 when all is well, 1 when some rows are errors, 2
for bad input, and 130 after Ctrl-C. docs/evaluate.md has the formats and the fields."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What is evaluated, and where the results go."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run's folder, an exported .npz file, or the name of a network that comes with dualmctx."""
    positions: Positional[Annotated[str, named(metavar="POSITIONS")]] = REQUIRED
    """A file that ends in .jsonl or .csv; or - for JSON lines on standard input, answered as they
    come in."""
    out: str = STANDARD
    """The file of results, which ends in .jsonl, .csv or .parquet; or - for JSON lines on standard
    output."""
    batch: int = 256
    """Positions that are evaluated at once."""
    strict: bool = False
    """Stop at the first position that cannot be read."""
    resume: bool = False
    """Go on with results that were interrupted, with the same settings."""
    search: Unprefixed[SearchFlags] = dataclasses.field(default_factory=SearchFlags)
    """The search."""
    coordinator: str | None = None
    """One of several processes that share the positions: where the first can be reached,
    HOST:PORT, or auto under SLURM or Open MPI (docs/clusters.md)."""
    num_processes: int | None = None
    """How many processes there are, with --coordinator HOST:PORT."""
    process_id: int | None = None
    """The number of this process, from 0, with --coordinator HOST:PORT."""

    def __post_init__(self) -> None:
        """Checks what no part of the program checks by itself."""
        check_processes(self.coordinator, self.num_processes, self.process_id)
        streams = [x for x in ("positions", "out") if getattr(self, x) == STANDARD]
        for name, value in (("resume", self.resume), ("coordinator", self.coordinator)):
            if streams and value:
                raise ValueError(f"{streams[0]} is -; it must be a file with --{name}")


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    if options.coordinator is None:
        return run(options)
    join(options.coordinator, options.num_processes, options.process_id, _PROGRAM)
    with ended_at_once():
        # At the start: to get in touch, processes wait for each other for 30 s and no longer.
        require_same(dataclasses.asdict(options) | {"process_id": None})
        return run(options)


@contextlib.contextmanager
def ended_at_once() -> Iterator[None]:
    """Ends this process at once where it has failed, as it would wait for the others in vain."""
    try:
        yield
    except SystemExit as error:
        os._exit(int(error.code or 0))
    except (ValueError, *FAILURES) as error:
        print(f"{_PROGRAM}: {first_line(error)}", file=sys.stderr, flush=True)
        os._exit(2)
    except KeyboardInterrupt as stop:
        print(f"{_PROGRAM}: stopped{''.join(stop.args)}", file=sys.stderr, flush=True)
        os._exit(130)


def claim(out: str) -> contextlib.AbstractContextManager[None]:
    """Checks that results can be written, and returns what locks them, or this process's part.

    The first process of a job locks the results, each other one its part of them.
    """
    if out == STANDARD:
        return contextlib.nullcontext()
    check_results(Path(out))
    path = Path(out) if is_first() else part_file(Path(out), jax.process_index())
    return locked(lock_beside(path), path)


def run(options: Options) -> int:
    """Runs what the flags say; returns the exit code."""
    with open_source(options.positions) as source, claim(options.out):
        evaluator, record = load_search(options.checkpoint, options.search, options.batch)
        task = Task(evaluator, source, strict=options.strict)
        if options.out == STANDARD:
            counts = write_out(task)
        else:
            processes = {"strict": options.strict, "processes": jax.process_count()}
            settings = record | {"positions": source.digest} | processes
            counts = write_file(task, Results(Path(options.out), settings), resume=options.resume)
    return 1 if counts.errors else 0
