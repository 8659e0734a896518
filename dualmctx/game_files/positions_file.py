"""Reads requested positions from JSON Lines, CSV or EPD, line by line in bounded memory.

Source of EPD: the PGN standard (1994), section 16.2. A line may also be a FEN with all six fields.
"""

import collections
import csv
import json
import re
import reprlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import orjson

from dualmctx.errors import UserError
from dualmctx.game_files.game_record import GameRecord
from dualmctx.game_files.pgn_file import read_pgn
from dualmctx.game_files.questions import POSITION_FIELDS, Question, Row, to_question
from dualmctx.game_files.sgf_file import read_sgf
from dualmctx.game_files.text_files import read_lines

_POSITION = re.compile(r"\s*(\S+)\s+(\S+)\s+(\S+)\s+([^\s;]+)\s*;?")
_OPERATION = re.compile(r'[\s;]*([A-Za-z]\w*)((?:\s+(?:"[^"]*"|[^\s;"]+))*)\s*(?:;|$)')
_END = re.compile(r"[\s;]*$")
_OPERAND = re.compile(r'"([^"]*)"|(\S+)')
# Fields of a position, and names that they would take from operations.
_RESERVED = ("fen", "moves")
_MAX_DIGITS = 40


def read_json_lines(file: BinaryIO) -> Iterator[Question]:
    """Reads JSON Lines: one object per line with `moves`, `fen` or both, and an optional `id`.

    Other fields are passed through to the results.

    Args:
      file: a file opened for reading, at its beginning.

    Returns:
      One question per line that is not blank. An invalid line sets its `error`.
    """
    return (to_question(line, read_object) for line in read_lines(file))


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
        names = (name.strip() for name in _cells(header.decode()))
        columns = [x.lower() if x.lower() in POSITION_FIELDS else x for x in names]
    except UserError as error:
        raise UserError(f"line {header.number}, the header: {error}") from None
    if not {"moves", "fen"} & set(columns):
        header_text = reprlib.repr(", ".join(columns))
        raise UserError(f"the header has no column moves or fen; it is {header_text}")
    named = list(filter(None, columns))
    if len(set(named)) < len(named):
        raise UserError("the header names a column twice")
    return (to_question(line, lambda text: _read_cells(columns, text)) for line in lines)


def read_object(text: str) -> Row:
    """Parses a line of JSON Lines.

    Raises:
      UserError: if the text is not a JSON object.
    """
    fields = read_json(text)
    if not isinstance(fields, dict):
        raise UserError(f"not a JSON object but {reprlib.repr(fields)}")
    return fields


def read_json(text: str) -> Any:
    """Parses strict JSON: no NaN or infinity, no name twice, and integers of at most 64 bits.

    It may be nested up to 254 levels deep.

    Raises:
      UserError: if the text is not such JSON.
    """
    try:
        # orjson writes fewer levels than it reads.
        orjson.dumps(orjson.loads(text))
        # orjson keeps the last of two equal names, and makes floats of larger integers.
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except orjson.JSONDecodeError as error:
        raise UserError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except orjson.JSONEncodeError:
        raise UserError("the JSON is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> Row:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        [(name, _)] = collections.Counter(name for name, _ in pairs).most_common(1)
        raise UserError(f"the JSON names the field {reprlib.repr(name)} twice")
    return fields


def _integer(text: str) -> int:
    # Python reads no numbers of thousands of digits.
    if len(text) > _MAX_DIGITS or not -(2**63) <= (value := int(text)) < 2**64:
        raise UserError(
            f"the JSON has the whole number {text[:_MAX_DIGITS]}, of more than 64 bits; write it "
            "as text"
        )
    return value


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


def read_epd(file: BinaryIO) -> Iterator[Question]:
    """Reads a file of EPD, one position per line.

    The operation `id` is the id of a position; `hmvc` and `fmvn` are its halfmoves and its move
    number, by default 0 and 1. The other operations, such as `bm`, pass through to the results.
    """
    return (to_question(line, _read_epd_line) for line in read_lines(file))


def _read_epd_line(text: str) -> Row:
    found = _POSITION.match(text)
    if found is None:
        number = len(text.partition(";")[0].split())
        raise UserError(
            f"{number} fields; four are needed: board, side to move, castling, en passant"
        )
    rest = text[found.end() :].lstrip()
    counters = re.match(r"(\d+)\s+(\d+)\s*(?:$|;|(?=\w))", rest)
    if counters is not None:
        rest = rest[counters.end() :]
    operations = _operations(rest)
    halfmoves, fullmoves = counters.groups() if counters is not None else ("0", "1")
    halfmoves = operations.pop("hmvc", halfmoves)
    fullmoves = operations.pop("fmvn", fullmoves)
    fields = {f"input_{x}" if x in _RESERVED else x: y for x, y in operations.items()}
    return fields | {"fen": " ".join((*found.groups(), halfmoves, fullmoves))}


def _operations(text: str) -> Row:
    """Returns the operands of each operation, with spaces between them."""
    found: Row = {}
    end = 0
    while not _END.match(text, end):
        match = _OPERATION.match(text, end)
        if match is None:
            raise UserError(
                f"{text[end : end + 40].strip()!r} is not an operation of EPD, as bm Nf3;"
            )
        if match[1] in found:
            raise UserError(f"the operation {match[1]} is there twice; a position has one of each")
        operands = (quoted or plain for quoted, plain in _OPERAND.findall(match[2]))
        found[match[1]] = " ".join(operands)
        end = match.end()
    return found


READERS: dict[str, Callable[[BinaryIO], Iterator[Question]]] = {
    ".jsonl": read_json_lines,
    ".csv": read_csv,
    ".epd": read_epd,
}
"""The reader of each file format with one position per line, by suffix."""
GAME_READERS: dict[str, Callable[[BinaryIO], Iterator[GameRecord]]] = {
    ".pgn": read_pgn,
    ".sgf": read_sgf,
    ".ggf": read_sgf,
}
"""The reader of each format of recorded games, by suffix."""
