"""Reads chess positions in Extended Position Description (EPD).

Source: the PGN standard (1994), section 16.2. A line may also be a FEN with all six fields.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO

from dualmctx.errors import UserError
from dualmctx.evaluation.fields import Row
from dualmctx.evaluation.questions import Question, read_lines, to_question

_OPERATION = re.compile(r'\s*(\w+)((?:\s+(?:"[^"]*"|[^\s;"]+))*)\s*(?:;|$)')
_OPERAND = re.compile(r'"([^"]*)"|(\S+)')
_FIELDS = 4


def read_epd(file: BinaryIO) -> Iterator[Question]:
    """Reads a file of EPD, opened for reading, one position per line.

    The operation `id` is the id of a position; `hmvc` and `fmvn` are its halfmoves and its move
    number, by default 0 and 1. The other operations, such as `bm`, pass through to the results.
    """
    return (to_question(line, _read_line) for line in read_lines(file))


def _read_line(text: str) -> Row:
    parts = text.split(maxsplit=_FIELDS)
    if len(parts) < _FIELDS:
        raise UserError(
            f"{len(parts)} fields; four are needed: board, side to move, castling, en passant"
        )
    position, rest = parts[:_FIELDS], "".join(parts[_FIELDS:])
    counters = re.match(r"(\d+)\s+(\d+)\s*(?:$|;|(?=\w))", rest)
    if counters is not None:
        rest = rest[counters.end() :]
    operations = _operations(rest)
    halfmoves, fullmoves = counters.groups() if counters is not None else ("0", "1")
    halfmoves = operations.pop("hmvc", halfmoves)
    fullmoves = operations.pop("fmvn", fullmoves)
    operations.pop("moves", None)
    return operations | {"fen": " ".join((*position, halfmoves, fullmoves))}


def _operations(text: str) -> Row:
    """Returns the operands of each operation, with spaces between them."""
    found: Row = {}
    end = 0
    while text[end:].strip():
        match = _OPERATION.match(text, end)
        if match is None or match.end() == end:
            raise UserError(f"{text[end:][:40].strip()!r} is not an operation of EPD, as bm Nf3;")
        operands = (quoted or plain for quoted, plain in _OPERAND.findall(match[2]))
        found[match[1]] = " ".join(operands)
        end = match.end()
    return found
