"""Parts: the result rows of each process, in journals, which survive kills and power cuts.

A part has a row for each position of its process, in the order of the input lines; the last row of
a complete part marks its end. The results can therefore have any format, even one that cannot be
appended to.
"""

import heapq
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dualmctx.errors import UserError
from dualmctx.evaluation.fields import Row
from dualmctx.runs.journal import Journal, read_lines, reopen_journal

# The beginning of a row: its id, its line, and the beginning of its error, if it is one.
_ROW_HEAD = re.compile(
    rb'\{(?:"id":(?:null|-?[0-9]+|"(?:[^"\\]|\\.)*"),)?"line":([1-9][0-9]*)(,"error":)?'
)
_END = "end"
_REMEDY = "remove the file, and its positions are evaluated again"


class Counts(NamedTuple):
    """The number of rows, and the number of rows that are errors."""

    rows: int
    errors: int

    def add(self, rows: list[Row]) -> "Counts":
        """Returns the counts including additional rows."""
        errors = sum("error" in row for row in rows)
        return Counts(self.rows + len(rows), self.errors + errors)


class SavedRow(NamedTuple):
    """A row of a part.

    Attributes:
      line: its input line.
      is_error: whether it is an error.
      data: the row as a line of JSON.
    """

    line: int
    is_error: bool
    data: bytes


def part_file(path: Path, process: int) -> Path:
    """Returns the path of the part of a process, beside the file of results."""
    return path.with_name(f"{path.name}.part-{process}")


def reopen_part(path: Path) -> tuple[Journal, int, Row]:
    """Opens a part to continue it.

    Returns:
      The part, the number of its rows that are errors, and its last row, which is empty if there
      is none.

    Raises:
      UserError: if the part is damaged.
    """
    part = reopen_journal(path, remedy=_REMEDY)
    errors, last = 0, None
    for last in read_lines(path, _REMEDY):
        head = _ROW_HEAD.match(last.data)
        errors += head is not None and head[2] is not None
    return part, errors, {} if last is None else last.row()


def end_row(positions: int | None) -> Row:
    """Returns the row that marks the end of a part.

    Args:
      positions: number of positions of all processes; `None` if the process stopped before the end
        of the input.
    """
    return {_END: positions}


def is_end(row: Row) -> bool:
    """Returns whether a row marks the end of a part."""
    return row.keys() == {_END}


def has_end(path: Path) -> bool:
    """Returns whether a part seems to be complete; another process may be writing the part."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 200))
            last = file.read().splitlines(keepends=True)[-1:]
    except OSError:
        return False
    return bool(last) and last[0].startswith(b'{"%s":' % _END.encode()) and last[0].endswith(b"\n")


def join_parts(paths: list[Path], *, strict: bool) -> Iterator[SavedRow]:
    """Merges complete parts; yields their rows, without parsing, in the order of the input lines.

    Args:
      paths: files of the parts.
      strict: whether to stop after the first row that is an error.

    Raises:
      UserError: if a part is damaged or incomplete, a line has two rows, or a position has none.
    """
    names, remedy = " and ".join(map(str, paths)), "remove all parts and start again"
    last = number = 0
    ends: list[int | None] = []
    for row in heapq.merge(*(_read_rows(path, ends) for path in paths)):
        if row.line <= last:
            raise UserError(f"{names} both have line {row.line}; {remedy}")
        last, number = row.line, number + 1
        yield row
        if strict and row.is_error:
            return
    if any(end not in (None, number) for end in ends):
        raise UserError(f"{names} have {number:,} rows, but the positions are {ends}; {remedy}")


def _read_rows(path: Path, ends: list[int | None]) -> Iterator[SavedRow]:
    """Yields the rows of a part, and appends the number in its last row to `ends`."""
    for line in read_lines(path, _REMEDY):
        head = _ROW_HEAD.match(line.data)
        if head is None:
            ends.append(line.row().get(_END))
            return
        yield SavedRow(int(head[1]), head[2] is not None, line.data)
    raise UserError(f"{path} is not complete; continue with --resume")
