"""Reads chess positions in Extended Position Description (EPD).

Source: the PGN standard (1994), section 16.2. A line may also be a FEN with all six fields.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO

from dualmctx.errors import UserError
from dualmctx.evaluation.fields import Row
from dualmctx.evaluation.questions import Question, to_question
from dualmctx.evaluation.text_files import read_lines

_POSITION = re.compile(r"\s*(\S+)\s+(\S+)\s+(\S+)\s+([^\s;]+)\s*;?")
_OPERATION = re.compile(r'[\s;]*([A-Za-z]\w*)((?:\s+(?:"[^"]*"|[^\s;"]+))*)\s*(?:;|$)')
_END = re.compile(r"[\s;]*$")
_OPERAND = re.compile(r'"([^"]*)"|(\S+)')
# Fields of a position, and names that they would take from operations.
_RESERVED = ("fen", "moves")


def read_epd(file: BinaryIO) -> Iterator[Question]:
    """Reads a file of EPD, opened for reading, one position per line.

    The operation `id` is the id of a position; `hmvc` and `fmvn` are its halfmoves and its move
    number, by default 0 and 1. The other operations, such as `bm`, pass through to the results.
    """
    return (to_question(line, _read_line) for line in read_lines(file))


def _read_line(text: str) -> Row:
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
