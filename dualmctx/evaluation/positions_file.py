"""Positions as they are asked for: lines of JSON or CSV, read one by one in bounded memory."""

import csv
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

LONGEST_LINE = 2**20
"""Bytes that a line may have."""
_FIELDS = ("id", "moves", "fen")


class Question(NamedTuple):
    """A position as a line asks for it; its game has not looked at it yet.

    Attributes:
      line: the line's number, from 1.
      id: what the answer is called by; the line's number where the line has none, and `None` where
        it cannot be read.
      moves: as `games.parse_moves` takes them, text or a list.
      fen: where the moves begin; `None` for the start of a game.
      error: why the line asks for nothing; `None` if it is all right.
      end: where the line ends in the file, in bytes.
    """

    line: int
    id: int | str | None
    moves: str | list[int | str] = ""
    fen: str | None = None
    error: str | None = None
    end: int = 0


class _Line(NamedTuple):
    """A line of a file; `text` is `None` if `error` says why it cannot be read."""

    number: int
    text: str | None
    error: str | None
    end: int


def read_json_lines(file: BinaryIO) -> Iterator[Question]:
    """Reads JSON Lines: an object a line, with `moves`, `fen` or both, and perhaps an `id`.

    Args:
      file: open for reading, at its beginning.

    Yields:
      A question a line, blank ones apart; what is wrong with a line is said in its `error`.
    """
    return (_question(line, _read_object) for line in _read_lines(file))


def read_csv(file: BinaryIO) -> Iterator[Question]:
    """Reads CSV: a header with a column `moves`, `fen` or both, and perhaps `id`.

    Other columns are passed over. A record is a line: quoted cells cannot go on in the next one.

    Args:
      file: open for reading, at its beginning.

    Returns:
      The questions, as `read_json_lines`.

    Raises:
      ValueError: when the file's header cannot be used, in one line.
    """
    lines = _read_lines(file)
    header = next(lines, None)
    if header is None:
        return iter(())
    try:
        if header.text is None:
            raise ValueError(header.error)
        columns = [name.strip() for name in _cells(header.text)]
    except ValueError as error:
        raise ValueError(f"line {header.number}, the header: {error}") from None
    if not {"moves", "fen"} & set(columns):
        found = reprlib.repr(", ".join(columns))
        raise ValueError(f"the header has no column moves or fen; it is {found}")
    if len(set(columns)) < len(columns):
        raise ValueError("the header names a column twice")
    return (_question(line, lambda text: _read_cells(columns, text)) for line in lines)


def _read_lines(file: BinaryIO) -> Iterator[_Line]:
    """Reads lines that are not blank; of one that is too long, no more than a piece at a time."""
    number = end = 0
    while data := file.readline(LONGEST_LINE + 1):
        number, end = number + 1, end + len(data)
        if len(data) > LONGEST_LINE:
            while data and not data.endswith(b"\n"):
                data = file.readline(LONGEST_LINE)
                end += len(data)
            yield _Line(number, None, f"the line is longer than {LONGEST_LINE} bytes", end)
        elif data := data.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").strip():
            try:
                yield _Line(number, data.decode(), None, end)
            except UnicodeDecodeError as error:
                yield _Line(number, None, f"byte {error.start + 1} is not UTF-8", end)


def _question(line: _Line, read: Callable[[str], dict[str, Any]]) -> Question:
    """Turns a line into a question, with the id if that alone can be read."""
    fields: dict[str, Any] = {}
    try:
        if line.text is None:
            raise ValueError(line.error)
        fields = read(line.text)
        _check_id(fields.get("id", line.number))
        _check(fields)
    except ValueError as error:
        return Question(line.number, _valid_id(fields.get("id")), error=str(error), end=line.end)
    asked_id, moves = fields.get("id", line.number), fields.get("moves", "")
    return Question(line.number, asked_id, moves, fields.get("fen"), end=line.end)


def _read_object(text: str) -> dict[str, Any]:
    fields = _read_json(text)
    if not isinstance(fields, dict):
        raise ValueError(f"not a JSON object but {reprlib.repr(fields)}")
    return fields


def _read_json(text: str) -> Any:
    """Reads JSON, without what it does not have or leaves open."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        reason = error.msg.removesuffix(" at")
        raise ValueError(f"not JSON: {reason} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("the JSON names a field twice")
    return fields


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def _read_cells(columns: list[str], text: str) -> dict[str, Any]:
    """Reads a record; an empty id or FEN is none, and moves may be a list in JSON."""
    cells = _cells(text)
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} cells; the header has {len(columns)} columns")
    record = dict(zip(columns, cells, strict=True))
    fields: dict[str, Any] = {name: record[name] for name in _FIELDS if name in record}
    for name in ("id", "fen"):
        if not fields.get(name, "").strip():
            fields.pop(name, None)
    if fields.get("moves", "").startswith("["):
        fields["moves"] = _read_json(fields["moves"])
    return fields


def _cells(text: str) -> list[str]:
    try:
        [cells] = csv.reader([text], strict=True)
    except csv.Error as error:
        raise ValueError(f"not CSV: {error}") from None
    return cells


def _check(fields: dict[str, Any]) -> None:
    """Checks that the fields are known and of their types."""
    for name in fields:
        if name not in _FIELDS:
            known = ", ".join(_FIELDS)
            raise ValueError(f"there is no field {reprlib.repr(name)}; the fields are {known}")
    moves, fen = fields.get("moves"), fields.get("fen")
    if "moves" not in fields and "fen" not in fields:
        raise ValueError("neither moves nor fen is given")
    if "fen" in fields and not isinstance(fen, str):
        raise ValueError(f"fen is {reprlib.repr(fen)}; it must be text")
    if "moves" in fields and not isinstance(moves, str) and not _is_list_of_moves(moves):
        remedy = "it must be text or a list of whole numbers and texts"
        raise ValueError(f"moves is {reprlib.repr(moves)}; {remedy}")


def _is_list_of_moves(moves: Any) -> bool:
    return isinstance(moves, list) and all(type(move) in (int, str) for move in moves)


def _check_id(value: Any) -> None:
    if _valid_id(value) is None:
        remedy = "it must be a whole number or printable text"
        raise ValueError(f"id is {reprlib.repr(value)}; {remedy}")


def _valid_id(value: Any) -> int | str | None:
    """Returns an id that every format of results can hold, else `None`."""
    if type(value) is int or (isinstance(value, str) and value and value.isprintable()):
        return value
    return None


READERS: dict[str, Callable[[BinaryIO], Iterable[Question]]] = {
    ".jsonl": read_json_lines,
    ".csv": read_csv,
}
"""How positions are read, by the suffix of their file."""
