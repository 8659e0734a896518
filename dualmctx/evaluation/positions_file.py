"""Reads requested positions from JSON Lines or CSV, line by line in bounded memory."""

import csv
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import orjson

MAX_LINE_LENGTH = 2**20
"""Maximum length of a line in bytes."""
_FIELDS = ("id", "moves", "fen")
_FIELD_SET, _MOVE_TYPES = frozenset(_FIELDS), frozenset((int, str))


class Question(NamedTuple):
    """A requested position; its moves and its FEN have not been parsed yet.

    Attributes:
      line: number of the line, from 1.
      id: id of the position: by default the number of the line; `None` if it cannot be read.
      moves: text or a list, as for `games.parse_moves`.
      fen: FEN of the position in which the moves begin; `None` for the initial position.
      error: reason why the line is invalid; `None` if it is valid.
      end: byte offset of the end of the line in the file.
    """

    line: int
    id: int | str | None
    moves: str | list[int | str] = ""
    fen: str | None = None
    error: str | None = None
    end: int = 0


_Line = tuple[int, bytes, str | None, int]
"""The number of a line, its bytes, the reason why it cannot be read, and the offset of its end."""


def read_json_lines(file: BinaryIO) -> Iterator[Question]:
    """Reads JSON Lines: one object per line with `moves`, `fen` or both, and an optional `id`.

    Args:
      file: a file opened for reading, at its beginning.

    Yields:
      One question per line that is not blank. An invalid line sets its `error`.
    """
    for line in _read_lines(file):
        number, data, _, end = line
        fields = _read_valid_object(data)
        if fields is None:
            yield _to_question(line, _read_object)
        else:
            position_id, moves = fields.get("id", number), fields.get("moves", "")
            yield Question(number, position_id, moves, fields.get("fen"), None, end)


def read_csv(file: BinaryIO) -> Iterator[Question]:
    """Reads CSV: a header with a column `moves`, `fen` or both, and an optional column `id`.

    Other columns are ignored. A record is one line; quoted cells cannot contain line breaks.

    Args:
      file: a file opened for reading, at its beginning.

    Returns:
      The questions, as for `read_json_lines`.

    Raises:
      ValueError: if the header is invalid.
    """
    lines = _read_lines(file)
    header = next(lines, None)
    if header is None:
        return iter(())
    try:
        columns = [name.strip() for name in _cells(_decode(header))]
    except ValueError as error:
        raise ValueError(f"line {header[0]}, the header: {error}") from None
    if not {"moves", "fen"} & set(columns):
        header_text = reprlib.repr(", ".join(columns))
        raise ValueError(f"the header has no column moves or fen; it is {header_text}")
    if len(set(columns)) < len(columns):
        raise ValueError("the header names a column twice")
    return (_to_question(line, lambda text: _read_cells(columns, text)) for line in lines)


def _read_lines(file: BinaryIO) -> Iterator[_Line]:
    """Yields lines that are not blank; skips a line that is too long, in bounded memory."""
    number = end = 0
    while data := file.readline(MAX_LINE_LENGTH + 1):
        number, end = number + 1, end + len(data)
        if len(data) > MAX_LINE_LENGTH:
            while data and not data.endswith(b"\n"):
                data = file.readline(MAX_LINE_LENGTH)
                end += len(data)
            yield number, b"", f"the line is longer than {MAX_LINE_LENGTH} bytes", end
        elif data := data.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").strip():
            yield number, data, None, end


def _decode(line: _Line) -> str:
    _, data, error, _ = line
    if error is not None:
        raise ValueError(error)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8") from None


def _to_question(line: _Line, read: Callable[[str], dict[str, Any]]) -> Question:
    """Converts a line to a question; an invalid line keeps its id if that is valid."""
    fields: dict[str, Any] = {}
    number, _, _, end = line
    try:
        fields = read(_decode(line))
        _check_id(fields.get("id", number))
        _check(fields)
    except ValueError as error:
        return Question(number, _valid_id(fields.get("id")), error=str(error), end=end)
    position_id, moves = fields.get("id", number), fields.get("moves", "")
    return Question(number, position_id, moves, fields.get("fen"), end=end)


def _read_valid_object(data: bytes) -> dict[str, Any] | None:
    """Parses a line if it is certainly valid; `None` means that only `_read_object` can tell.

    orjson keeps the last of several equal fields, and converts integers of more than 64 bits to
    floats. A line with more colons than fields may have equal fields.
    """
    try:
        fields = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if type(fields) is not dict or data.count(b":") != len(fields) or not fields:
        return None
    moves = fields.get("moves", "")
    is_valid = (
        fields.keys() <= _FIELD_SET
        and ("moves" in fields or "fen" in fields)
        and _valid_id(fields.get("id", 1)) is not None
        and type(fields.get("fen", "")) is str
        and (type(moves) is str or _is_list_of_moves(moves))
    )
    return fields if is_valid else None


def _read_object(text: str) -> dict[str, Any]:
    fields = _read_json(text)
    if not isinstance(fields, dict):
        raise ValueError(f"not a JSON object but {reprlib.repr(fields)}")
    return fields


def _read_json(text: str) -> Any:
    """Parses strict JSON: no duplicate fields, NaN or infinity; integers are exact."""
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
    raise ValueError(f"{name} is not a JSON number")


def _read_cells(columns: list[str], text: str) -> dict[str, Any]:
    """Parses a record; an empty id or FEN counts as absent, and moves may be a JSON list."""
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
    """Checks the names and types of the fields."""
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
        remedy = "it must be text or a list of integers and texts"
        raise ValueError(f"moves is {reprlib.repr(moves)}; {remedy}")


def _is_list_of_moves(moves: Any) -> bool:
    return isinstance(moves, list) and _MOVE_TYPES.issuperset(map(type, moves))


def _check_id(value: Any) -> None:
    if _valid_id(value) is None:
        remedy = "it must be an integer or printable text"
        raise ValueError(f"id is {reprlib.repr(value)}; {remedy}")


def _valid_id(value: Any) -> int | str | None:
    """Returns an id that every format of results can store, else `None`."""
    if type(value) is int or (isinstance(value, str) and value and value.isprintable()):
        return value
    return None


READERS: dict[str, Callable[[BinaryIO], Iterable[Question]]] = {
    ".jsonl": read_json_lines,
    ".csv": read_csv,
}
"""The reader of each file format, by suffix."""
