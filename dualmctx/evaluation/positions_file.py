"""Reads requested positions from JSON Lines or CSV, line by line in bounded memory."""

import csv
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import orjson

from dualmctx.errors import UserError
from dualmctx.evaluation.fields import POSITION_FIELDS, Row
from dualmctx.evaluation.questions import Question, to_question
from dualmctx.evaluation.text_files import Line, read_lines

SelectFields = Callable[[Row], Row]
"""Takes all fields of a line and returns those of a position."""
_KNOWN = frozenset(POSITION_FIELDS)
# Values that both parsers read alike.
_PLAIN = frozenset((str, int, bool, type(None)))


def _all(fields: Row) -> Row:
    return fields


def read_json_lines(file: BinaryIO) -> Iterator[Question]:
    """Reads JSON Lines: one object per line with `moves`, `fen` or both, and an optional `id`.

    Other fields are passed through to the results.

    Args:
      file: a file opened for reading, at its beginning.

    Returns:
      One question per line that is not blank. An invalid line sets its `error`.
    """
    return map(read_json_line, read_lines(file))


def read_json_line(line: Line, select: SelectFields = _all) -> Question:
    """Reads a line of JSON Lines; an invalid line sets its `error`.

    Args:
      line: the line.
      select: takes the fields of the line and returns those of a position. It is called again with
        the fields of a strict parser if the question is invalid.
    """
    question = to_question(line, lambda text: select(_read_quickly(text)))
    if question.error is None:
        return question
    return to_question(line, lambda text: select(_read_object(text)))


def read_csv(file: BinaryIO) -> Iterator[Question]:
    """Reads CSV: a header with a column `moves`, `fen` or both, and an optional column `id`.

    These names may be in capitals. Other columns are passed through to the results as text; those
    without a name are ignored. A record is one line; quoted cells cannot contain line breaks.

    Args:
      file: a file opened for reading, at its beginning.

    Returns:
      The questions, as for `read_json_lines`.

    Raises:
      ValueError: if the header is invalid.
    """
    lines = read_lines(file)
    header = next(lines, None)
    if header is None:
        return iter(())
    try:
        columns = [_column_name(name.strip()) for name in _cells(header.decode())]
    except UserError as error:
        raise UserError(f"line {header.number}, the header: {error}") from None
    if not {"moves", "fen"} & set(columns):
        header_text = reprlib.repr(", ".join(columns))
        raise UserError(f"the header has no column moves or fen; it is {header_text}")
    named = list(filter(None, columns))
    if len(set(named)) < len(named):
        raise UserError("the header names a column twice")
    return (to_question(line, lambda text: _read_cells(columns, text)) for line in lines)


def _column_name(name: str) -> str:
    return name.lower() if name.lower() in _KNOWN else name


def _read_quickly(text: str) -> Row:
    """Parses an object with orjson, which keeps the last of several equal fields.

    orjson also converts integers of more than 64 bits to floats, which no field of a position
    accepts.

    Raises:
      ValueError: if the text is not an object, has more colons than fields, so that fields may be
        equal, or has other fields with numbers that are not integers or with nested values.
    """
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise UserError(_STRICT) from None
    if type(fields) is not dict or text.count(":") != len(fields):
        raise UserError(_STRICT)
    if not fields.keys() <= _KNOWN:
        types = {type(value) for name, value in fields.items() if name not in _KNOWN}
        if not types <= _PLAIN:
            raise UserError(_STRICT)
    return fields


_STRICT = "only a strict parser can read the line"


def _read_object(text: str) -> Row:
    fields = read_json(text)
    if not isinstance(fields, dict):
        raise UserError(f"not a JSON object but {reprlib.repr(fields)}")
    for name, value in fields.items():
        if name not in _KNOWN:
            _check_extra(name, value)
    return fields


def _check_extra(name: str, value: Any) -> None:
    """Checks that a further field can be stored in every format of results.

    Raises:
      ValueError: if it has unpaired surrogates, an infinite number or too many nested levels.
    """
    try:
        orjson.loads(json.dumps([name, value], ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, RecursionError):
        raise UserError(
            f"field {reprlib.repr(name)} is {reprlib.repr(value)}; it must have finite numbers, "
            "no unpaired surrogates, and at most 1,000 nested levels"
        ) from None


def read_json(text: str) -> Any:
    """Parses strict JSON: no duplicate fields, NaN or infinity; integers are exact.

    Raises:
      UserError: if the text is not such JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        reason = error.msg.removesuffix(" at")
        raise UserError(f"not JSON: {reason} at character {error.pos + 1}") from None
    except RecursionError:
        raise UserError("the JSON is nested too deeply") from None
    except UserError:
        raise
    except ValueError:
        raise UserError("the JSON has a whole number with thousands of digits") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise UserError("the JSON names a field twice")
    return fields


def _refuse_constant(name: str) -> Any:
    raise UserError(f"{name} is not a JSON number")


def _read_cells(columns: list[str], text: str) -> Row:
    """Parses a record; an empty id or FEN counts as absent, and moves may be a JSON list."""
    cells = _cells(text)
    if len(cells) != len(columns):
        raise UserError(f"{len(cells)} cells; the header has {len(columns)} columns")
    fields: Row = dict(zip(columns, cells, strict=True))
    fields.pop("", None)
    for name in ("id", "fen"):
        if not fields.get(name, "").strip():
            fields.pop(name, None)
    if fields.get("moves", "").startswith("["):
        fields["moves"] = read_json(fields["moves"])
    return fields


def _cells(text: str) -> list[str]:
    try:
        [cells] = csv.reader([text], strict=True)
    except csv.Error as error:
        raise UserError(f"not CSV: {error}") from None
    return cells


READERS: dict[str, Callable[[BinaryIO], Iterable[Question]]] = {
    ".jsonl": read_json_lines,
    ".csv": read_csv,
}
"""The reader of each file format, by suffix."""
