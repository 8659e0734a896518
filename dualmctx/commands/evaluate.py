"""`dualmctx evaluate CHECKPOINT POSITIONS --out RESULTS`: evaluates positions by a search."""

import contextlib
import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from dualmctx.checks import check_count
from dualmctx.commands.flags import REQUIRED, Positional, Unprefixed, named, parse_flags
from dualmctx.commands.process_settings import is_terminal, rare_collections
from dualmctx.commands.result_table import ResultTable
from dualmctx.commands.result_writer import Task, write_file, write_out
from dualmctx.commands.search_options import SearchFlags, load_search
from dualmctx.commands.source import STANDARD, Source, open_source
from dualmctx.console import Console
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.evaluation.fields import ECHOED_FIELDS
from dualmctx.evaluation.results_file import check_results
from dualmctx.evaluation.results_state import Counts, Results
from dualmctx.evaluation.text_files import split_suffix
from dualmctx.runs.locks import lock_beside, locked

_PROGRAM = "dualmctx evaluate"
_DESCRIPTION = """Evaluates positions with a network and a search. Each result has the best move,
values, visits and Q-values of all legal moves, the principal variation, and the output of the
network. The result of an invalid position is an error. Exit codes: 0 for success, 1 if some rows
are errors, 2 for invalid input, 130 after Ctrl-C or SIGTERM. docs/evaluate.md describes formats and
fields."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The network, the positions and the results."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .safetensors file, or the name of a network shipped with
    dualmctx."""
    positions: Positional[Annotated[str, named(metavar="POSITIONS")]] = REQUIRED
    """A .jsonl, .csv, .pgn, .sgf or .epd file, also with .gz or .zst; or - for JSON Lines on
    standard input, which are evaluated as they arrive."""
    out: str | None = None
    """The file of results, .jsonl, .csv or .parquet; .gz or .zst may follow the first two. By
    default, or with -, JSON Lines on standard output; by default a table if that is a terminal."""
    fields: tuple[str, ...] | None = None
    """Fields of the results, in this order, such as id move value; by default all. An error is
    always kept."""
    game_positions: Literal["all", "last"] = "all"
    """The positions of each game in a PGN or SGF file that are evaluated."""
    echo: bool = False
    """Repeat the moves and the FEN of each position in its result."""
    flat: bool = False
    """In CSV, write one column per number in place of lists (docs/evaluate.md)."""
    batch: int | None = None
    """Positions evaluated at once; by default 256 on a CPU and for standard input, and on GPUs as
    many as half of the free memory holds, at most 16384 each (docs/evaluate.md)."""
    strict: bool = False
    """Stop at the first invalid position."""
    resume: bool = False
    """Continue an interrupted evaluation with the same settings."""
    search: Unprefixed[SearchFlags] = dataclasses.field(default_factory=SearchFlags)
    """The search."""

    def __post_init__(self) -> None:
        """Checks values that are not checked elsewhere."""
        check_count("batch", self.batch, 1, "for the default")
        if self.fields is not None and not _split(self.fields):
            raise UserError("fields is empty; name at least one field, such as move")
        if self.flat and (self.out is None or split_suffix(Path(self.out))[0] != ".csv"):
            raise UserError(f"flat is for CSV; out is {self.out or STANDARD}")
        out = self.out or STANDARD
        given = (("positions", self.positions), ("out", out))
        streams = [name for name, value in given if value == STANDARD]
        if streams and self.resume:
            raise UserError(f"{streams[0]} is -; it must be a file with --resume")


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    require_backend(_PROGRAM)
    return run(options)


def claim(out: str) -> contextlib.AbstractContextManager[None]:
    """Checks that results can be written, and returns a context manager that locks them."""
    if out == STANDARD:
        return contextlib.nullcontext()
    check_results(Path(out))
    return locked(lock_beside(Path(out)), Path(out))


Fields = tuple[str, ...] | None


def _split(fields: Fields) -> Fields:
    """Splits names with commas, as in `--fields id,move`."""
    return None if fields is None else tuple(y for x in fields for y in x.split(",") if y)


def run(options: Options) -> int:
    """Evaluates the positions; returns the exit code."""
    out = options.out or STANDARD
    every_position = options.game_positions == "all"
    opened = open_source(options.positions, every_position=every_position)
    with opened as source, claim(out):
        fields = _split(options.fields)
        source = source.checked(fields)
        evaluator, record, _ = load_search(
            options.checkpoint, options.search, options.batch, source.num_lines
        )
        source = source.for_game(evaluator.env, evaluator.batch_size)
        if options.echo or not set(ECHOED_FIELDS).isdisjoint(fields or ()):
            source = source.echoed()
        if options.batch is None:
            print(f"{_PROGRAM}: using --batch {evaluator.batch_size}", file=sys.stderr)
        task = Task(evaluator, source, options.strict, fields, options.flat)
        with rare_collections():
            if out == STANDARD:
                counts = _write_standard(task, shows_table=options.out is None)
            else:
                results = Results(Path(out), record | _settings(options, source, fields))
                counts = write_file(task, results, resume=options.resume)
    return 1 if counts.errors else 0


def _write_standard(task: Task, *, shows_table: bool) -> Counts:
    """Writes results to standard output: as a table if it is a terminal and one is wanted."""
    if not (shows_table and is_terminal()):
        return write_out(task)
    table = ResultTable(Console(), task.fields)
    counts = write_out(task, table)
    table.close()
    return counts


def _settings(options: Options, source: Source, fields: Fields) -> dict[str, Any]:
    """Returns what determines the rows apart from the network and the search, as JSON values."""
    return {
        "positions": source.digest,
        "strict": options.strict,
        "game_positions": options.game_positions,
        "fields": None if fields is None else list(fields),
        "echo": options.echo,
        "flat": options.flat,
    }
