"""Writes result rows to standard output, or to a file, where they survive a kill."""

import collections
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import jax

from dualmctx.commands.source import Source
from dualmctx.commands.standard_streams import is_terminal, write_standard
from dualmctx.console import Console
from dualmctx.distributed.processes import is_first, require_same
from dualmctx.errors import UserError
from dualmctx.evaluation.answers import Answered, answer
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.fields import RESULT_FIELDS, Row, select
from dualmctx.evaluation.parts import (
    Counts,
    end_row,
    has_end,
    is_end,
    join_parts,
    reopen_part,
)
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.results_file import (
    TEXT,
    Flat,
    Layout,
    find_extra,
    has_columns,
    write_results,
)
from dualmctx.evaluation.results_state import Results
from dualmctx.runs.journal import Journal
from dualmctx.runs.json_lines import parse_line, to_line
from dualmctx.runs.progress import Pace, showing

X = TypeVar("X")
# Processes take turns of this many positions.
_POSITIONS_PER_TURN = 1024
_POLL_SECONDS = 0.2


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

    def own_questions(self, numbers: Iterator[int]) -> Iterator[Question]:
        """Yields the positions of this process, and numbers those of all processes."""
        process, num_processes = jax.process_index(), jax.process_count()
        for question, number in zip(self.source.questions, numbers, strict=False):
            if number // _POSITIONS_PER_TURN % num_processes == process:
                yield question

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

    def layout(self, parts: list[Path]) -> Layout:
        """Returns the columns of the results that the parts hold."""
        extra = find_extra(row.data for row in join_parts(parts, strict=False))
        if self.fields is None:
            columns = (*RESULT_FIELDS, *extra)
        else:
            # Every file has a column of errors.
            columns = (*self.fields, *(("error",) if "error" not in self.fields else ()))
            extra = {name: extra.get(name, TEXT) for name in columns if name not in RESULT_FIELDS}
        num_trees = self.evaluator.empty.tree_values.shape[1]
        flat = Flat(self.evaluator.num_heads, num_trees) if self.flat else None
        return Layout(columns, extra, flat)


def max_own_positions(source: Source) -> int | None:
    """Returns an upper bound of the number of positions of each process; `None` if unknown."""
    if source.num_lines is None:
        return None
    turns = -(-source.num_lines // _POSITIONS_PER_TURN)
    own_turns = -(-turns // jax.process_count())
    return min(source.num_lines, own_turns * _POSITIONS_PER_TURN)


def _until_error(rows: list[Row]) -> Iterator[Row]:
    """Yields rows up to and including the first error."""
    for row in rows:
        yield row
        if "error" in row:
            return


@contextlib.contextmanager
def progress(
    num_bytes: int | None, console: Console | None = None
) -> Iterator[Callable[[Counts, int], None]]:
    """Shows how much of the input has been read.

    Args:
      num_bytes: size of the input; `None` shows nothing.
      console: the output; by default standard error.

    Yields:
      A function `(counts, end)` that takes the counts of the rows, and the byte offset of the end
      of the last position.
    """
    if num_bytes is None:
        yield lambda counts, end: None
        return
    pace = Pace()
    with showing(console, ends=False) as show:

        def show_positions(counts: Counts, end: int) -> None:
            pace.report(counts.rows)
            errors = f", {counts.errors:,} of them errors" if counts.errors else ""
            note = f"{counts.rows:,} positions{errors}, {pace.rate:,.0f} per second"
            show("bytes read", end, num_bytes, note)

        yield show_positions


def write_out(task: Task, write: Callable[[list[Row]], None] | None = None) -> Counts:
    """Writes rows to standard output, each batch as soon as it is evaluated.

    Args:
      task: the positions.
      write: writes the rows of a batch; by default as JSON Lines.
    """
    write = write or write_lines
    counts = Counts(0, 0)
    # On a terminal the rows themselves show the progress.
    num_bytes = None if is_terminal() else task.source.num_bytes
    with progress(num_bytes) as show:
        for answered in task.answers(task.own_questions(itertools.count())):
            counts = counts.add(answered.rows)
            rows = answered.rows
            write(rows if task.fields is None else [select(row, task.fields) for row in rows])
            show(counts, answered.end)
    return counts


def write_lines(rows: list[Row]) -> None:
    """Writes rows to standard output as JSON Lines."""
    write_standard(b"".join(map(to_line, rows)))


def write_file(task: Task, results: Results, *, resume: bool) -> Counts:
    """Writes the part of this process; the first process then merges all parts into the results.

    Raises:
      ValueError: see `Results.claim`; also if another process has different settings.
      KeyboardInterrupt: after Ctrl-C; the message names the saved rows and the remedy.
    """
    start = time.monotonic()
    if is_first():
        results.claim(resume=resume)
    # The other processes wait here for the first one.
    require_same(results.settings)
    if results.finished() is None:
        path = results.part(jax.process_index())
        try:
            write_part(task, path)
            if is_first():
                merge_parts(task, results)
        except KeyboardInterrupt:
            remedy = "" if task.source.num_bytes is None else "; continue with --resume"
            raise KeyboardInterrupt(f": the rows so far are in {path}{remedy}") from None
    counts = wait_for(results.finished)
    if is_first():
        seconds = time.monotonic() - start
        print(
            f"{results.path}: {counts.rows:,} rows, {counts.errors:,} of them errors, "
            f"in {seconds:,.1f} s",
            file=sys.stderr,
        )
    return counts


def write_part(task: Task, path: Path) -> None:
    """Writes the missing rows of the part of this process.

    Raises:
      UserError: if the part is damaged, or is not of these positions.
    """
    part, errors, last = reopen_part(path)
    if is_end(last):
        return
    counts, numbers = Counts(part.num_rows, errors), itertools.count()
    questions = _skip(task.own_questions(numbers), part, last.get("line", 0))
    num_bytes = task.source.num_bytes if is_first() else None
    with progress(num_bytes) as show:
        # A strict task may have been stopped between its last row and the end.
        if not (task.strict and "error" in last):
            for answered in task.answers(questions):
                rows = answered.rows
                if task.fields is not None:
                    # A part needs the id and the line of a row, with any selection.
                    kept = dict.fromkeys(("id", "line", "error", *task.fields))
                    rows = [select(row, kept) for row in rows]
                part.append(rows)
                counts, last = counts.add(rows), rows[-1]
                show(counts, answered.end)
    is_stopped = task.strict and "error" in last
    part.append([end_row(None if is_stopped else next(numbers))])


def _skip(questions: Iterator[Question], part: Journal, last_line: int) -> Iterator[Question]:
    """Returns the positions that have no row in a part, after a check of the last one that has."""
    before = collections.deque(itertools.islice(questions, part.num_rows), maxlen=1)
    if last_line != (before[0].line if before else 0):
        raise UserError(
            f"{part.path} has {part.num_rows:,} rows up to line {last_line}, which are not those "
            "of the first positions; remove all parts and start again"
        )
    return questions


def merge_parts(task: Task, results: Results) -> None:
    """Waits for the parts of all processes and merges them into the results."""
    parts = [results.part(process) for process in range(jax.process_count())]
    wait_for(lambda: all(map(has_end, parts)) or None)
    rows = errors = 0

    def lines() -> Iterator[bytes]:
        nonlocal rows, errors
        for row in join_parts(parts, strict=task.strict):
            rows, errors = rows + 1, errors + row.is_error
            yield row.data if task.fields is None else reselect(row.data, task.fields)

    layout = task.layout(parts) if has_columns(results.path) else None
    write_results(lines(), results.path, layout)
    results.finish(Counts(rows, errors))


def reselect(line: bytes, fields: tuple[str, ...]) -> bytes:
    """Returns the selected fields of a line of JSON."""
    return to_line(select(parse_line(line), fields))


def wait_for(poll: Callable[[], X | None]) -> X:
    """Polls until `poll` returns a value; if another process dies, this one ends (`processes`)."""
    while (value := poll()) is None:
        time.sleep(_POLL_SECONDS)
    return value
