"""Converts rows of files to lines of JSON and back."""

import json
import math
from typing import Any

import orjson

_MAX_INTEGER = 2**63


def to_line(row: Any) -> bytes:
    """Converts a row to a line of JSON in UTF-8; NaN and infinite numbers become null."""
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # orjson has no integers of more than 64 bits, which an id may have, and no NumPy numbers.
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
    row = orjson.loads(line)
    # orjson converts integers of more than 64 bits to floats.
    inexact = any(isinstance(x, float) and abs(x) >= _MAX_INTEGER for x in row.values())
    return json.loads(line) if inexact else row
