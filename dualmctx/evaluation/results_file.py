"""Writes result rows as JSON Lines, CSV or Parquet."""

import importlib
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dualmctx.errors import UserError
from dualmctx.evaluation.compression import open_compressed, require_compression, split_suffix
from dualmctx.evaluation.csv_results import write_csv
from dualmctx.evaluation.layout import BOOLEAN, INTEGER, JSON, NUMBER, TEXT, Layout
from dualmctx.runs.atomic_io import atomic_path
from dualmctx.runs.journal import to_line

_ROWS_PER_GROUP = 4096
_NUMBER_ID = re.compile(rb'^\{"id":(-?[0-9]+)')


def write_json_lines(lines: Iterable[bytes], file: BinaryIO, layout: Layout) -> None:
    """Writes rows as JSON Lines."""
    del layout
    file.writelines(lines)


def write_parquet(lines: Iterable[bytes], file: BinaryIO, layout: Layout) -> None:
    """Writes rows as Parquet with nested columns; ids become strings."""
    arrow, parquet = require_arrow()
    reader = importlib.import_module("pyarrow.json")
    schema = _schema(arrow, layout)
    parsing = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    lines = _with_texts(map(_with_text_id, lines), layout)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := b"".join(itertools.islice(lines, _ROWS_PER_GROUP)):
            reading = reader.ReadOptions(use_threads=False, block_size=len(group))
            table = reader.read_json(io.BytesIO(group), reading, parsing)
            writer.write_table(table, row_group_size=_ROWS_PER_GROUP)


def _with_text_id(line: bytes) -> bytes:
    return _NUMBER_ID.sub(rb'{"id":"\1"', line, count=1)


def _with_texts(lines: Iterable[bytes], layout: Layout) -> Iterator[bytes]:
    """Replaces values that have no column type of their own by their JSON."""
    names = [name for name, kind in layout.extra.items() if kind == JSON]
    if not names:
        yield from lines
        return
    for line in lines:
        # Python's parser is exact for integers of any size.
        row = json.loads(line)
        for name in names:
            if row.get(name) is not None and not isinstance(row[name], str):
                row[name] = json.dumps(row[name], separators=(",", ":"), ensure_ascii=False)
        yield to_line(row)


def _schema(arrow: Any, layout: Layout) -> Any:
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
    kinds = {TEXT: text, JSON: text, INTEGER: arrow.int64(), NUMBER: arrow.float64()}
    kinds[BOOLEAN] = arrow.bool_()
    types |= {name: kinds[kind] for name, kind in layout.extra.items()}
    return arrow.schema([(name, types[name]) for name in layout.columns])


def require_arrow() -> tuple[Any, Any]:
    """Imports and returns the modules pyarrow and pyarrow.parquet.

    Raises:
      ValueError: if pyarrow is not installed.
    """
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(
            'pyarrow is not installed; run pip install "dualmctx[parquet]", or use an --out file '
            "that ends in .jsonl or .csv"
        ) from None


WRITERS: dict[str, Callable[[Iterable[bytes], BinaryIO, Layout], None]] = {
    ".jsonl": write_json_lines,
    ".csv": write_csv,
    ".parquet": write_parquet,
}
"""The writer of each file format, by suffix."""
_COMPRESSED = (".jsonl", ".csv")


def write_results(lines: Iterable[bytes], path: Path, layout: Layout | None = None) -> None:
    """Writes rows atomically to a file, in the format and with the compression of its suffixes.

    Args:
      lines: the rows, as lines of `to_line`.
      path: the file.
      layout: the columns of CSV and Parquet; by default the fields of results.
    """
    form, compression = split_suffix(path)
    with atomic_path(path) as draft, open_compressed(draft, compression) as file:
        WRITERS[form](lines, file, layout or Layout())


def has_columns(path: Path) -> bool:
    """Returns whether the format of a file has columns, which must be known before the rows."""
    return split_suffix(path)[0] != ".jsonl"


def check_results(path: Path) -> None:
    """Checks that results can be written to a file.

    Raises:
      ValueError: if the format is unknown, or the folder does not exist.
    """
    form, compression = split_suffix(path)
    if form not in (_COMPRESSED if compression else WRITERS):
        known = ", ".join(WRITERS)
        compressed = " or ".join(_COMPRESSED)
        raise UserError(
            f"out is {path}; it must end in one of {known}, or be -; .gz and .zst may follow "
            f"{compressed}"
        )
    if not path.parent.is_dir():
        raise UserError(f"out is {path}; the folder {path.parent} does not exist")
    if form == ".parquet":
        require_arrow()
    require_compression(path)
