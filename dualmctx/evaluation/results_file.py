"""Writes result rows as JSON Lines, CSV or Parquet."""

import csv
import importlib
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

from dualmctx.evaluation.rows import Row
from dualmctx.runs.atomic_io import atomic_path

_COLUMNS = (
    *("id", "line", "error", "action", "move", "value", "network_value", "tree_values"),
    *("pv", "heads_agree", "heads_distance", "legal"),
)
"""The fields of a row, in this order."""
_ROWS_PER_GROUP = 4096
_LEGAL = b',"legal":'
_NUMBER_ID = re.compile(rb'^\{"id":(-?[0-9]+)')


def to_line(row: Row) -> bytes:
    """Converts a row to a line of JSON in UTF-8."""
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # orjson has no integers of more than 64 bits, which an id may have.
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def write_json_lines(lines: Iterable[bytes], path: Path) -> None:
    """Writes rows as JSON Lines."""
    with path.open("wb") as file:
        file.writelines(lines)


def write_csv(lines: Iterable[bytes], path: Path) -> None:
    """Writes rows as CSV; a list is a cell of JSON, and an absent field is an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerow(_COLUMNS)
        writer = csv.writer(file, lineterminator="")
        for line in lines:
            cells, legal = _cells(line)
            writer.writerow(cells)
            file.write(f",{legal}\n")


def _cells(line: bytes) -> tuple[list[Any], str]:
    """Returns the cells of a row except the last, and the text of the last cell.

    The last field is by far the longest, and its cell is its JSON, so it is not parsed. A quote
    inside of a text has a backslash, so the name of the field occurs nowhere else.
    """
    head, separator, legal = line.rstrip().partition(_LEGAL)
    row = _read(head + b"}" if separator else head)
    cells = [_cell(row.get(name)) for name in _COLUMNS[:-1]]
    text = legal.decode().removesuffix("}").replace('"', '""')
    return cells, f'"{text}"' if '"' in text else text


def _read(line: bytes) -> Row:
    """Parses a row; orjson would convert an id of more than 64 bits to a float."""
    row = orjson.loads(line)
    return json.loads(line) if isinstance(row["id"], float) else row


def _cell(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, list | bool) else value


def write_parquet(lines: Iterable[bytes], path: Path) -> None:
    """Writes rows as Parquet with nested columns; ids become strings."""
    arrow, parquet = require_arrow()
    reader = importlib.import_module("pyarrow.json")
    schema = _schema(arrow)
    parsing = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    lines = map(_with_text_id, lines)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := b"".join(itertools.islice(lines, _ROWS_PER_GROUP)):
            reading = reader.ReadOptions(use_threads=False, block_size=len(group))
            table = reader.read_json(io.BytesIO(group), reading, parsing)
            writer.write_table(table, row_group_size=_ROWS_PER_GROUP)


def _with_text_id(line: bytes) -> bytes:
    return _NUMBER_ID.sub(rb'{"id":"\1"', line, count=1)


def _schema(arrow: Any) -> Any:
    numbers, text = arrow.list_(arrow.float64()), arrow.string()
    move = {
        **{"action": arrow.int32(), "move": text, "network_policy": numbers},
        **{"weight": arrow.float64(), "visits": arrow.int32(), "q": arrow.float64()},
    }
    types = {
        **{"id": text, "line": arrow.int64(), "error": text},
        **{"action": arrow.int32(), "move": text, "value": arrow.float64()},
        **{"network_value": numbers, "tree_values": numbers, "pv": arrow.list_(text)},
        **{"heads_agree": arrow.bool_(), "heads_distance": arrow.float64()},
        "legal": arrow.list_(arrow.struct(list(move.items()))),
    }
    return arrow.schema([(name, types[name]) for name in _COLUMNS])


def require_arrow() -> tuple[Any, Any]:
    """Imports and returns the modules pyarrow and pyarrow.parquet.

    Raises:
      ValueError: if pyarrow is not installed.
    """
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ValueError(
            'pyarrow is not installed; run pip install "dualmctx[parquet]", or use an --out file '
            "that ends in .jsonl or .csv"
        ) from None


WRITERS: dict[str, Callable[[Iterable[bytes], Path], None]] = {
    ".jsonl": write_json_lines,
    ".csv": write_csv,
    ".parquet": write_parquet,
}
"""The writer of each file format, by suffix."""


def write_results(lines: Iterable[bytes], path: Path) -> None:
    """Writes rows, as lines of `to_line`, atomically to a file in the format of its suffix."""
    with atomic_path(path) as draft:
        WRITERS[path.suffix](lines, draft)


def check_results(path: Path) -> None:
    """Checks that results can be written to a file.

    Raises:
      ValueError: if the format is unknown, or the folder does not exist.
    """
    if path.suffix not in WRITERS:
        known = ", ".join(WRITERS)
        raise ValueError(f"out is {path}; it must end in one of {known}, or be -")
    if not path.parent.is_dir():
        raise ValueError(f"out is {path}; the folder {path.parent} does not exist")
    if path.suffix == ".parquet":
        require_arrow()
