"""Converts rows of results to lines of JSON and back."""

import json

import orjson

from dualmctx.evaluation.fields import Row

_MAX_INTEGER = 2**63


def to_line(row: Row) -> bytes:
    """Converts a row to a line of JSON in UTF-8."""
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # orjson has no integers of more than 64 bits, which an id may have.
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def parse_line(line: bytes) -> Row:
    """Parses a line of `to_line`."""
    row = orjson.loads(line)
    # orjson converts integers of more than 64 bits to floats.
    inexact = any(isinstance(x, float) and abs(x) >= _MAX_INTEGER for x in row.values())
    return json.loads(line) if inexact else row
