"""Journals: files of rows that survive kills and power cuts, and in which no damage goes unseen.

A journal is a file of JSON Lines to which rows are only appended. The last field of each line,
`crc`, is a checksum of the row and of its number in the file. It shows lines that were changed,
removed, added or moved.

Two rules hold for all journals:

- A kill or a full disk leaves an incomplete line at the end. It is cut, with a message.
- Any other damage is an error with the name of the file and the number of the line. The file
  stays unchanged.

Only complete rows are counted. A caller that knows how many rows there must be says so, and too
few of them are an error too.
"""

import contextlib
import json
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_path, naming, sync

PUT_BACK = "put back a copy of the file"
"""The remedy for a damaged journal, unless its caller has a better one."""
_ENDING_LENGTH = len(',"crc":"00000000"}\n')


class Line(NamedTuple):
    """A complete line of a journal.

    Attributes:
      number: its number, from 1.
      data: the row as a line of JSON, without the checksum.
      end: the number of bytes of the file up to the end of the line.
    """

    number: int
    data: bytes
    end: int

    def row(self) -> dict[str, Any]:
        """Parses the row."""
        return parse_line(self.data)


class Journal:
    """A journal that is being written; of one process only, which holds a lock.

    Attributes:
      path: the file; it exists once there is a row.
      num_rows: number of rows.
    """

    def __init__(self, path: Path, num_rows: int = 0, size: int = 0) -> None:
        self.path, self.num_rows = path, num_rows
        self._size = size

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        """Appends rows; they are on the disk when the function returns.

        Raises:
          UserError: if another program has changed the size of the file.
          OSError: if the disk is full or fails, with the name of the file. The journal stays as it
            was, and the rows can be appended again.
        """
        lines = [_to_line(i, row) for i, row in enumerate(rows, self.num_rows + 1)]
        if not lines:
            return
        with naming(self.path), self.path.open("ab") as file:
            size = os.fstat(file.fileno()).st_size
            if size != self._size:
                raise UserError(
                    f"{self.path} has {size:,} bytes in place of {self._size:,}: another program "
                    f"has changed it; {PUT_BACK}"
                )
            try:
                file.write(b"".join(lines))
                file.flush()
                os.fsync(file.fileno())
                if not self._size:
                    sync(self.path.parent)
            except OSError:
                with contextlib.suppress(OSError):
                    os.truncate(self.path, self._size)
                raise
        self.num_rows += len(lines)
        self._size += sum(map(len, lines))

    def cut(self, num_rows: int) -> None:
        """Removes the rows after the first `num_rows`; a resumed program writes them again."""
        if num_rows >= self.num_rows:
            return
        ends = (line.end for line in read_lines(self.path) if line.number == num_rows)
        self._size, self.num_rows = next(ends, 0), num_rows
        _truncate(self.path, self._size)


def reopen_journal(
    path: Path,
    *,
    least: int = 0,
    remedy: str = PUT_BACK,
    say: Callable[[str], None] | None = None,
) -> Journal:
    """Opens a journal to continue it; without a file, it has no rows.

    Args:
      path: the file.
      least: the number of rows that must be there.
      remedy: the end of the message about a damaged file.
      say: called with a message if an incomplete row was cut; by default it is printed on standard
        error.

    Raises:
      UserError: if the file is damaged or has too few rows; it stays unchanged then.
    """
    last = Line(0, b"", 0)
    for line in read_lines(path, remedy):
        last = line
    if last.number < least:
        raise UserError(
            f"{path} has {last.number:,} rows; there must be at least {least:,}; {remedy}"
        )
    if path.exists() and path.stat().st_size > last.end:
        _truncate(path, last.end)
        report = say or (lambda text: print(text, file=sys.stderr))
        report(f"{path}: the last row was incomplete and has been removed")
    return Journal(path, last.number, last.end)


def read_lines(path: Path, remedy: str = PUT_BACK) -> Iterator[Line]:
    """Yields the complete lines of a journal; without a file, none.

    Args:
      path: the file.
      remedy: the end of the message about a damaged file.

    Raises:
      UserError: at the first line that is damaged.
    """
    if not path.exists():
        return
    end = 0
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.endswith(b"\n"):
                return
            data = _without_crc(number, text)
            if data is None:
                raise UserError(
                    f"{path}, line {number} is damaged: it was changed, or a line was removed, "
                    f"added or moved; {remedy}"
                )
            end += len(text)
            yield Line(number, data, end)


def read_rows(path: Path, remedy: str = PUT_BACK) -> list[dict[str, Any]]:
    """Returns the complete rows of a journal; see `read_lines`."""
    return [line.row() for line in read_lines(path, remedy)]


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes a journal of rows, which replaces the file atomically."""
    with atomic_path(path) as draft:
        draft.write_bytes(b"".join(_to_line(i, row) for i, row in enumerate(rows, start=1)))


def _to_line(number: int, row: dict[str, Any]) -> bytes:
    data = to_line(row)
    return data[:-2] + _ending(number, data)


def _without_crc(number: int, text: bytes) -> bytes | None:
    """Returns a line without its checksum; `None` if it is not the row that was written there."""
    data = text[:-_ENDING_LENGTH] + b"}\n"
    return data if text[-_ENDING_LENGTH:] == _ending(number, data) else None


def _ending(number: int, data: bytes) -> bytes:
    # The checksum begins with the number of the line in place of 0.
    return b',"crc":"%08x"}\n' % zlib.crc32(data, number)


def _truncate(path: Path, size: int) -> None:
    with naming(path):
        os.truncate(path, size)
        sync(path)


def to_line(row: Any) -> bytes:
    """Converts a row to a line of JSON in UTF-8; NaN and infinite numbers become null."""
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # orjson writes no NumPy numbers and no deeply nested values.
        text = json.dumps(without_non_finite(row), separators=(",", ":"), ensure_ascii=False)
        return text.encode() + b"\n"


def without_non_finite(value: Any) -> Any:
    """Replaces NaN and infinite numbers by `None` at any depth, because JSON has neither."""
    if isinstance(value, dict):
        return {name: without_non_finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_non_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse_line(line: bytes) -> dict[str, Any]:
    """Parses a line of `to_line`."""
    return orjson.loads(line)
