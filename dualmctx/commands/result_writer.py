"""Writes result rows to standard output, or to a file, where they survive a kill."""

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from dualmctx.commands.process_settings import is_terminal, write_standard
from dualmctx.commands.source import Source
from dualmctx.console import Console
from dualmctx.evaluation.answers import Answered, answer
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.fields import RESULT_FIELDS, Row, select
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.results_file import (
    TEXT,
    Flat,
    Layout,
    find_extra,
    has_columns,
    write_results,
)
from dualmctx.evaluation.results_state import Counts, Results
from dualmctx.runs.journal import read_lines, reopen_journal, to_line
from dualmctx.runs.progress import Pace, showing

_REMEDY = "remove the file, and its positions are evaluated again"


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
        for answered in task.answers(task.source.questions):
            counts = counts.add(answered.rows)
            write(task.select(answered.rows))
            show(counts, answered.end)
    return counts


def write_lines(rows: list[Row]) -> None:
    """Writes rows to standard output as JSON Lines."""
    write_standard(b"".join(map(to_line, rows)))


def write_file(task: Task, results: Results, *, resume: bool) -> Counts:
    """Writes the rows to the part of the results; at the end, writes the results.

    Raises:
      ValueError: see `Results.claim`; also if the part is damaged.
      KeyboardInterrupt: after Ctrl-C; the message names the saved rows and the remedy.
    """
    start = time.monotonic()
    results.claim(resume=resume)
    counts = results.finished()
    if counts is None:
        try:
            counts = write_part(task, results.part)
            layout = task.layout(results.part) if has_columns(results.path) else None
            write_results(_lines(results.part), results.path, layout)
            results.finish(counts)
        except KeyboardInterrupt:
            remedy = "" if task.source.num_bytes is None else "; continue with --resume"
            raise KeyboardInterrupt(f": the rows so far are in {results.part}{remedy}") from None
    seconds = time.monotonic() - start
    print(
        f"{results.path}: {counts.rows:,} rows, {counts.errors:,} of them errors, "
        f"in {seconds:,.1f} s",
        file=sys.stderr,
    )
    return counts


def write_part(task: Task, path: Path) -> Counts:
    """Writes the missing rows of a part; returns the counts of all its rows.

    Raises:
      UserError: if the part is damaged.
    """
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
