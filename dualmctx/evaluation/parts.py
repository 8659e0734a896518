"""Rows of results while they are made: a part for each process, which a kill leaves whole.

A part holds rows as JSON Lines, in the order of the lines that they answer, and an end when it is
complete. What a kill leaves of it is whole up to some row; the rest is cut off. So one way of going
on serves every format of results, also those that cannot be appended to.
"""

import heapq
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dualmctx.evaluation.results_file import to_line
from dualmctx.evaluation.rows import Row
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.runs.folder import flatten
from dualmctx.runs.record_names import with_current_names


class Counts(NamedTuple):
    """How many rows there are, and how many of them say what is wrong."""

    rows: int
    errors: int

    def add(self, rows: list[Row]) -> "Counts":
        """Returns the counts with some rows more."""
        errors = sum("error" in row for row in rows)
        return Counts(self.rows + len(rows), self.errors + errors)


class Part(NamedTuple):
    """What is kept of the rows of a process.

    Attributes:
      path: the file.
      counts: how many there are.
      last_line: the line that the last row answers; 0 if there is none.
      is_complete: whether no more are to come.
    """

    path: Path
    counts: Counts = Counts(0, 0)
    last_line: int = 0
    is_complete: bool = False

    def append(self, file: BinaryIO, rows: list[Row]) -> "Part":
        """Appends rows to the file, of which a kill then loses none; returns what is kept."""
        file.write(b"".join(to_line(row) for row in rows))
        file.flush()
        return self._add(rows)

    def complete(self, file: BinaryIO) -> "Part":
        """Writes that no more rows are to come."""
        file.write(to_line(self._end()))
        file.flush()
        return self._replace(is_complete=True)

    def _add(self, rows: list[Row]) -> "Part":
        return self._replace(counts=self.counts.add(rows), last_line=rows[-1]["line"])

    def _end(self) -> Row:
        return {"end": self.counts._asdict()}


def reopen_part(path: Path) -> Part:
    """Reads what is kept of a part and cuts off what is not whole, if it exists.

    Returns:
      The rows up to the first that is damaged or out of order; all later ones are to be made anew.
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
                part = part._add([row])
            else:
                break
            size += len(data)
        file.truncate(size)
    return part


def _read_row(data: bytes) -> Row | None:
    """Reads a line that is whole, else `None`."""
    if not data.endswith(b"\n"):
        return None
    try:
        row = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def has_end(path: Path) -> bool:
    """Returns whether a part that another process writes is complete."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 200))
            last = file.read().splitlines(keepends=True)[-1:]
    except OSError:
        return False
    return bool(last) and "end" in (_read_row(last[0]) or {})


def join_parts(paths: list[Path], *, strict: bool) -> Iterator[Row]:
    """Joins complete parts: yields their rows by the order of their lines.

    Args:
      paths: of the parts.
      strict: whether a row that says what is wrong is the last one.

    Raises:
      ValueError: when a line is answered twice, or a part is damaged, in one line.
    """
    last = 0
    for row in heapq.merge(*map(_rows, paths), key=lambda row: row["line"]):
        if row["line"] <= last:
            names = " and ".join(path.name for path in paths)
            raise ValueError(f"{names} both have line {last}; remove all parts and begin anew")
        last = row["line"]
        yield row
        if strict and "error" in row:
            return


def _rows(path: Path) -> Iterator[Row]:
    """Yields the rows of a complete part.

    Raises:
      ValueError: when the rows are not what its process has written, in one line.
    """
    part = Part(path)
    with path.open("rb") as file:
        for data in file:
            row = _read_row(data)
            if row == part._end():
                return
            if row is None or not isinstance(row.get("line"), int):
                break
            if row["line"] <= part.last_line:
                raise ValueError(
                    f"{path} has line {row['line']} after line {part.last_line}: two processes "
                    f"have written to it; {_REMEDY}"
                )
            part = part._add([row])
            yield row
    raise ValueError(f"{path} is damaged after line {part.last_line}; {_REMEDY}")


_REMEDY = "--resume keeps the rows up to there and makes the others anew"


def part_file(path: Path, process: int) -> Path:
    """Returns where a process's part of a file of results is."""
    return path.with_name(f"{path.name}.part-{process}")


class Results(NamedTuple):
    """A file of results and what is beside it while it is made.

    Attributes:
      path: the file.
      settings: what decides about the rows, as JSON can hold it; kept beside the file, in
        `NAME.settings.json`, also when it is done.
    """

    path: Path
    settings: dict[str, Any]

    def part(self, process: int) -> Path:
        """Returns where the part of a process is."""
        return part_file(self.path, process)

    def claim(self, *, resume: bool) -> None:
        """Begins or goes on, in the first process alone.

        Raises:
          ValueError: when there are such results and they are not to go on, or they are made with
            other settings, in one line.
        """
        if self._is_lost():
            self._settings_file.unlink()
        if not resume and (self.path.exists() or self._settings_file.exists()):
            raise ValueError(
                f"out is {self.path}, which exists or is being made; choose another file, or go on "
                "with --resume"
            )
        if not resume or not self._settings_file.exists():
            if self.path.exists():
                raise ValueError(f"{self.path} has no {self._settings_file.name} to go on with")
            self._remove_parts()
            self._write({"settings": self.settings})
            return
        saved, wanted = flatten(self._read()[0]), flatten(self.settings)
        names = sorted(x for x in saved | wanted if saved.get(x) != wanted.get(x))
        if names:
            fields = ", ".join(f"{x} ({saved.get(x)} → {wanted.get(x)})" for x in names)
            raise ValueError(f"{self.path} is made with other settings: {fields}")

    def finished(self) -> Counts | None:
        """Returns what the file holds, `None` as long as it is not done."""
        return self._read()[1]

    def finish(self, counts: Counts) -> None:
        """Writes what the file holds, and removes the parts."""
        self._write({"settings": self.settings, "finished": counts._asdict()})
        self._remove_parts()

    def _is_lost(self) -> bool:
        """Returns whether it cannot go on, as its positions came from standard input."""
        if self.path.exists() or not self._settings_file.exists():
            return False
        return self._read()[0].get("positions", "") is None

    def _remove_parts(self) -> None:
        for file in self.path.parent.iterdir():
            if file.name.startswith(f"{self.path.name}.part-"):
                file.unlink()

    @property
    def _settings_file(self) -> Path:
        return self.path.with_name(f"{self.path.name}.settings.json")

    def _read(self) -> tuple[dict[str, Any], Counts | None]:
        file = self._settings_file
        try:
            content = json.loads(file.read_text())
            counts = content.get("finished")
            settings = with_current_names(dict(content["settings"]))
            return settings, None if counts is None else Counts(**counts)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}".split("\n")[0]
            raise ValueError(f"{file} cannot be read ({reason}); begin anew without it") from error

    def _write(self, content: dict[str, Any]) -> None:
        atomic_write_text(self._settings_file, json.dumps(content, indent=2) + "\n")
