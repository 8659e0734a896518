"""`dualmctx evaluate CHECKPOINT POSITIONS --out RESULTS`: evaluates positions by a search."""

import contextlib
import dataclasses
import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from dualmctx.checks import check_count
from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.commands.process_settings import is_terminal, rare_collections
from dualmctx.commands.result_table import NOTE, ResultTable
from dualmctx.commands.search import SearchFlags, load_search
from dualmctx.commands.source import STANDARD, Source, open_source, write_lines
from dualmctx.console import Console
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.evaluation.annotations import ANNOTATORS
from dualmctx.evaluation.answers import Answered, answer
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.results_file import (
    TEXT,
    Flat,
    Layout,
    check_results,
    find_extra,
    has_columns,
    write_results,
)
from dualmctx.evaluation.results_state import Counts, Results
from dualmctx.game_files.questions import ECHOED_FIELDS, RESULT_FIELDS, Question, Row, select
from dualmctx.game_files.text_files import split_suffix
from dualmctx.runs.journal import parse_line, read_lines, reopen_journal
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.runs.progress import Pace, showing

_PROGRAM = "dualmctx evaluate"
_REMEDY = "remove the file, and its positions are evaluated again"
_DESCRIPTION = """Evaluates positions with a network and a search. Each result has the best move,
values, visits and Q-values of all legal moves, the principal variation, and the output of the
network. The result of an invalid position is an error. Exit codes: 0 for success, 1 if some rows
are errors, 2 for invalid input, 130 after Ctrl-C or SIGTERM. docs/evaluate.md describes formats and
fields."""


@dataclasses.dataclass(frozen=True)
class Options(SearchFlags):
    """The network, the positions and the results."""

    positions: Positional[Annotated[str, named(metavar="POSITIONS")]] = REQUIRED
    """A .jsonl, .csv, .pgn, .sgf, .ggf or .epd file, also with .gz or .zst; or - for JSON Lines on
    standard input, which are evaluated as they arrive."""
    out: str | None = None
    """The file of results: .jsonl, .csv or .parquet; for a file of games also .pgn or .sgf, the
    same games with comments. .gz or .zst may follow all but .parquet. By default, or with -, JSON
    Lines on standard output; by default a table if that is a terminal."""
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
    """Positions evaluated at once; by default 256 on a CPU, for files of games and for standard
    input. For other files, each GPU takes as many as half of its free memory holds, at most 16384
    (docs/evaluate.md)."""
    strict: bool = False
    """Stop at the first invalid position."""
    resume: bool = False
    """Continue an interrupted evaluation with the same settings."""

    def __post_init__(self) -> None:
        """Checks values that are not checked elsewhere."""
        check_count("batch", self.batch, 1, "for the default")
        if self.names == ():
            raise UserError("fields is empty; name at least one field, such as move")
        if self.flat and (self.out is None or split_suffix(Path(self.out))[0] != ".csv"):
            raise UserError(f"flat is for CSV; out is {self.out or STANDARD}")
        out = self.out or STANDARD
        self._check_annotated(out)
        for name, value in (("positions", self.positions), ("out", out)):
            if self.resume and value == STANDARD:
                raise UserError(f"{name} is -; it must be a file with --resume")

    def _check_annotated(self, out: str) -> None:
        """Checks the options for games that are written with comments."""
        form = split_suffix(Path(out))[0]
        if form not in ANNOTATORS:
            return
        if split_suffix(Path(self.positions))[0] != form:
            raise UserError(
                f"out is {out}, which is for the games of a {form} file; positions is "
                f"{self.positions}"
            )
        if self.fields is not None or self.game_positions != "all" or self.echo:
            raise UserError(
                f"out is {out}, for which all fields of all positions are needed; leave out "
                "--fields, --echo and --game-positions"
            )

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names in `fields`, also those between commas, as in `--fields id,move`."""
        if self.fields is None:
            return None
        return tuple(filter(None, ",".join(self.fields).split(",")))


class Task(NamedTuple):
    """The positions to evaluate and the results to write.

    Attributes:
      evaluator: the network and the search.
      source: the positions.
      strict: whether to stop after the first error.
      fields: the fields of the results, in this order; `None` for all.
      flat: whether CSV has one column per scalar.
    """

    evaluator: Evaluator
    source: Source
    strict: bool
    fields: tuple[str, ...] | None = None
    flat: bool = False

    def answers(self, questions: Iterator[Question]) -> Iterator[Answered]:
        """Evaluates positions."""
        batches = self.source.batches(self.evaluator.batch_size, questions)
        for answered in answer(self.evaluator, batches):
            rows = list(_until_error(answered.rows)) if self.strict else answered.rows
            yield answered._replace(rows=rows)
            if self.strict and "error" in rows[-1]:
                where = f"{self.source.name}, line {rows[-1]['line']}"
                print(f"{where}: {rows[-1]['error']}; stopped there", file=sys.stderr)
                return

    def select(self, rows: list[Row]) -> list[Row]:
        """Returns rows with the fields of the results; an error is always kept."""
        return rows if self.fields is None else [select(row, self.fields) for row in rows]

    def save(self, results: Results) -> None:
        """Writes the results, whose part is complete."""
        form, reopen = split_suffix(results.path)[0], self.source.reopen
        if reopen is None or form not in ANNOTATORS:
            layout = self.layout(results.part) if has_columns(results.path) else None
            write_results(_lines(results.part), results.path, layout)
            return
        # Games have no place for errors. Of a strict task, the error has been printed.
        for row in map(parse_line, _lines(results.part)):
            if "error" in row and not self.strict:
                print(f"{self.source.name}: {row['error']}", file=sys.stderr)
        write = functools.partial(ANNOTATORS[form], self.evaluator.env, reopen)
        write_results(_lines(results.part), results.path, write=write)

    def layout(self, part: Path) -> Layout:
        """Returns the columns of the results that a part holds."""
        extra = find_extra(_lines(part))
        if self.fields is None:
            columns = (*RESULT_FIELDS, *extra)
        else:
            # Every file has a column of errors.
            columns = (*self.fields, *(("error",) if "error" not in self.fields else ()))
            extra = {name: extra.get(name, TEXT) for name in columns if name not in RESULT_FIELDS}
        num_trees = self.evaluator.empty.tree_values.shape[1]
        flat = Flat(self.evaluator.num_heads, num_trees) if self.flat else None
        return Layout(columns, extra, flat)


def _until_error(rows: list[Row]) -> Iterator[Row]:
    """Yields rows up to and including the first error."""
    for row in rows:
        yield row
        if "error" in row:
            return


@contextlib.contextmanager
def progress(num_bytes: int | None) -> Iterator[Callable[[Counts, int], None]]:
    """Shows how much of the `num_bytes` of the input has been read; nothing if it is `None`.

    Yields a function of the counts of the rows, and of the byte offset of the end of the last
    position.
    """
    if num_bytes is None:
        yield lambda counts, end: None
        return
    pace = Pace()
    with showing(ends=False) as show:

        def show_positions(counts: Counts, end: int) -> None:
            pace.report(counts.rows)
            errors = f", {counts.errors:,} of them errors" if counts.errors else ""
            note = f"{counts.rows:,} positions{errors}, {pace.rate:,.0f} per second"
            show("bytes read", end, num_bytes, note)

        yield show_positions


def _write_standard(task: Task, *, wants_table: bool) -> Counts:
    """Writes results to standard output, each batch as soon as it is evaluated."""
    counts, on_terminal = Counts(0, 0), is_terminal()
    has_table, console = wants_table and on_terminal, Console()
    write = ResultTable(console, task.fields) if has_table else write_lines
    # On a terminal the rows themselves show the progress.
    with progress(None if on_terminal else task.source.num_bytes) as show:
        for answered in task.answers(task.source.questions):
            counts = counts.add(answered.rows)
            write(task.select(answered.rows))
            show(counts, answered.end)
    if has_table and task.fields is None:
        console.print(NOTE, style="dim")
    return counts


def write_file(task: Task, results: Results, *, resume: bool) -> Counts:
    """Writes the rows to the part of the results; at the end, writes the results."""
    start = time.monotonic()
    results.claim(resume=resume)
    counts = results.finished()
    if counts is None:
        try:
            counts = write_part(task, results.part)
            task.save(results)
            results.finish(counts)
        except KeyboardInterrupt:
            remedy = "" if task.source.num_bytes is None else "; continue with --resume"
            place = f"the rows so far are in {results.part}"
            said = place if results.part.exists() else "no row is written yet"
            raise KeyboardInterrupt(f": {said}{remedy}") from None
    seconds = time.monotonic() - start
    print(
        f"{results.path}: {counts.rows:,} rows, {counts.errors:,} of them errors, "
        f"in {seconds:,.1f} s",
        file=sys.stderr,
    )
    return counts


def write_part(task: Task, path: Path) -> Counts:
    """Writes the missing rows of a part; returns the counts of all its rows."""
    part, counts, last = reopen_journal(path, remedy=_REMEDY), Counts(0, 0), {}
    for line in read_lines(path, _REMEDY):
        last = line.row()
        counts = counts.add([last])
    # A strict task may have been stopped after its last row.
    if task.strict and "error" in last:
        return counts
    questions = itertools.islice(task.source.questions, part.num_rows, None)
    with progress(task.source.num_bytes) as show:
        for answered in task.answers(questions):
            rows = task.select(answered.rows)
            part.append(rows)
            counts = counts.add(rows)
            show(counts, answered.end)
    return counts


def _lines(part: Path) -> Iterator[bytes]:
    """Yields the rows of a part as lines of JSON, without parsing."""
    return (line.data for line in read_lines(part, _REMEDY))


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    require_backend(_PROGRAM)
    out, fields = options.out or STANDARD, options.names
    every_position = options.game_positions == "all"
    opened = open_source(options.positions, every_position=every_position)
    with opened as source, contextlib.ExitStack() as stack:
        if out != STANDARD:
            check_results(Path(out), tuple(ANNOTATORS))
            stack.enter_context(locked(lock_beside(Path(out)), Path(out)))
        source = source.checked(fields)
        evaluator, record, _ = load_search(options, options.batch, source.num_lines)
        source = source.for_game(evaluator.env, evaluator.batch_size)
        if options.echo or not set(ECHOED_FIELDS).isdisjoint(fields or ()):
            source = source.echoed()
        if options.batch is None:
            print(f"{_PROGRAM}: using --batch {evaluator.batch_size}", file=sys.stderr)
        task = Task(evaluator, source, options.strict, fields, options.flat)
        with rare_collections():
            if out == STANDARD:
                counts = _write_standard(task, wants_table=options.out is None)
            else:
                results = Results(Path(out), record | _settings(options, source))
                counts = write_file(task, results, resume=options.resume)
    return 1 if counts.errors else 0


def _settings(options: Options, source: Source) -> dict[str, Any]:
    """Returns the settings that determine the rows, without network and search, as JSON values."""
    return {
        "positions": source.digest,
        "strict": options.strict,
        "game_positions": options.game_positions,
        "fields": None if options.names is None else list(options.names),
        "echo": options.echo,
        "flat": options.flat,
    }
