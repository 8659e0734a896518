"""Writes result rows as JSON Lines, CSV or Parquet."""

import csv
import importlib
import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dualmctx.evaluation.rows import Row
from dualmctx.runs.atomic_io import atomic_path

_COLUMNS = (
    *("id", "line", "error", "action", "move", "value", "network_value", "tree_values"),
    *("pv", "heads_agree", "heads_distance", "legal"),
)
"""The fields of a row, in this order."""
_ROWS_PER_GROUP = 4096


def to_line(row: Row) -> bytes:
    """Converts a row to a line of ASCII JSON."""
    return json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def write_json_lines(rows: Iterable[Row], path: Path) -> None:
    """Writes rows as JSON Lines."""
    with path.open("wb") as file:
        file.writelines(map(to_line, rows))


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """Writes rows as CSV; a list is a cell of JSON, and an absent field is an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for row in rows:
            writer.writerow([_cell(row.get(name)) for name in _COLUMNS])


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | bool) else value


def write_parquet(rows: Iterable[Row], path: Path) -> None:
    """Writes rows as Parquet with nested columns; ids become strings."""
    arrow, parquet = require_arrow()
    schema = _schema(arrow)
    rows = iter(rows)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := list(itertools.islice(rows, _ROWS_PER_GROUP)):
            texts = [row | {"id": None if row["id"] is None else str(row["id"])} for row in group]
            writer.write_batch(arrow.RecordBatch.from_pylist(texts, schema=schema))


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


WRITERS: dict[str, Callable[[Iterable[Row], Path], None]] = {
    ".jsonl": write_json_lines,
    ".csv": write_csv,
    ".parquet": write_parquet,
}
"""The writer of each file format, by suffix."""


def write_results(rows: Iterable[Row], path: Path) -> None:
    """Writes rows atomically to a file, in the format of its suffix."""
    with atomic_path(path) as draft:
        WRITERS[path.suffix](rows, draft)


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
