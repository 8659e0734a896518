"""Part files: the result rows of each process, in a form that survives a kill.

A part contains rows as JSON Lines, in the order of their input lines; a complete part ends with an
end marker. After a kill, the damaged end is truncated and the evaluation continues after the last
complete row. The results can therefore have any format, even one that cannot be appended to.
"""

import heapq
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson

from dualmctx.errors import UserError
from dualmctx.evaluation.rows import Row
from dualmctx.runs.json_lines import to_line

# The beginning of a row: its id, its line, and the beginning of its error, if it is one.
_ROW_HEAD = re.compile(
    rb'\{(?:"id":(?:null|-?[0-9]+|"(?:[^"\\]|\\.)*"),)?"line":([1-9][0-9]*)(,"error":)?'
)


class Counts(NamedTuple):
    """The number of rows, and the number of rows that are errors."""

    rows: int
    errors: int

    def add(self, rows: list[Row]) -> "Counts":
        """Returns the counts including additional rows."""
        errors = sum("error" in row for row in rows)
        return Counts(self.rows + len(rows), self.errors + errors)


class Part(NamedTuple):
    """The saved rows of a process.

    Attributes:
      path: the file.
      counts: counts of the rows.
      last_line: input line of the last row; 0 if there are no rows.
      is_complete: whether the part has its end marker.
    """

    path: Path
    counts: Counts = Counts(0, 0)
    last_line: int = 0
    is_complete: bool = False

    def append(self, file: BinaryIO, rows: list[Row]) -> "Part":
        """Appends and flushes rows, so that they survive a kill; returns the updated part."""
        file.write(b"".join(map(to_line, rows)))
        file.flush()
        return self._replace(counts=self.counts.add(rows), last_line=rows[-1]["line"])

    def complete(self, file: BinaryIO) -> "Part":
        """Writes the end marker; returns the updated part."""
        file.write(to_line(self._end()))
        file.flush()
        return self._replace(is_complete=True)

    def _end(self) -> Row:
        return {"end": self.counts._asdict()}


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


def reopen_part(path: Path) -> Part:
    """Reads a part, if it exists, and truncates it before the first damaged row.

    Returns:
      The part up to the first row that is damaged or out of order.
    """
    part, size = Part(path), 0
    if not path.exists():
        return part
    with path.open("r+b") as file:
        for data in file:
            row = _read_row(data)
            if row is None or part.is_complete:
                break
            if row == part._end():
                part = part._replace(is_complete=True)
            elif isinstance(row.get("line"), int) and row["line"] > part.last_line:
                part = part._replace(counts=part.counts.add([row]), last_line=row["line"])
            else:
                break
            size += len(data)
        file.truncate(size)
    return part


def _read_row(data: bytes) -> Row | None:
    """Parses a complete line; returns `None` if it is damaged."""
    if not data.endswith(b"\n"):
        return None
    try:
        row = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def has_end(path: Path) -> bool:
    """Returns whether a part has its end marker; another process may be writing the part."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 200))
            last = file.read().splitlines(keepends=True)[-1:]
    except OSError:
        return False
    return bool(last) and (_read_row(last[0]) or {}).keys() == {"end"}


def join_parts(paths: list[Path], *, strict: bool) -> Iterator[SavedRow]:
    """Merges complete parts; yields their rows in the order of their input lines.

    The rows are not parsed, because `reopen_part` has checked those that were not written since.

    Args:
      paths: files of the parts.
      strict: whether to stop after the first row that is an error.

    Raises:
      ValueError: if an input line has two rows, or a part is damaged.
    """
    last = 0
    for row in heapq.merge(*map(_read_rows, paths)):
        if row.line <= last:
            names = " and ".join(path.name for path in paths)
            raise UserError(f"{names} both have line {last}; remove all parts and start again")
        last = row.line
        yield row
        if strict and row.is_error:
            return


def _read_rows(path: Path) -> Iterator[SavedRow]:
    """Yields the rows of a complete part.

    Raises:
      ValueError: if the part is damaged, or two processes have written to it.
    """
    last = rows = errors = 0
    with path.open("rb") as file:
        for data in file:
            head = _ROW_HEAD.match(data)
            if head is None or not data.endswith(b"}\n"):
                if data == to_line(Part(path, Counts(rows, errors))._end()):
                    return
                break
            row = SavedRow(int(head[1]), head[2] is not None, data)
            if row.line <= last:
                raise UserError(
                    f"{path} has line {row.line} after line {last}: two processes have written to "
                    f"it; {_REMEDY}"
                )
            last, rows, errors = row.line, rows + 1, errors + row.is_error
            yield row
    raise UserError(f"{path} is damaged after line {last}; {_REMEDY}")


_REMEDY = "use --resume, which keeps the rows up to there and evaluates the others again"


def part_file(path: Path, process: int) -> Path:
    """Returns the path of the part of a process, beside the file of results."""
    return path.with_name(f"{path.name}.part-{process}")
