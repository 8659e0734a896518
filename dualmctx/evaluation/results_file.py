"""Formats of files of results: JSON Lines, CSV and Parquet."""

import csv
import functools
import importlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from dualmctx.errors import UserError
from dualmctx.game_files.questions import RESULT_FIELDS, Row
from dualmctx.game_files.text_files import open_compressed, require_compression, split_suffix
from dualmctx.runs.atomic_io import atomic_path
from dualmctx.runs.journal import parse_line, to_line

TEXT, INTEGER, NUMBER, BOOLEAN, JSON = "text", "integer", "number", "boolean", "json"
_MAX_INTEGER = 2**63
_KNOWN = frozenset(RESULT_FIELDS)
# Stands for a missing number in a list, where an empty text would not be visible.
_MISSING = "-"
_ROWS_PER_GROUP = 4096
# The columns of the legal moves in flat CSV, and their fields.
_FLAT_MOVES = {
    **{"legal_moves": "move", "legal_weights": "weight", "legal_visits": "visits"},
    "legal_q": "q",
}


class Flat(NamedTuple):
    """The numbers of heads and of trees, which have a column each in flat CSV."""

    heads: int
    trees: int


class Layout(NamedTuple):
    """The columns of a file of results.

    Attributes:
      columns: names of the fields, in order.
      extra: the kind of each column that is not a field of results: the type of all of its values,
        or `json` if they have no common scalar type.
      flat: whether CSV has one column per scalar; `None` for lists as JSON.
    """

    columns: tuple[str, ...] = RESULT_FIELDS
    extra: Mapping[str, str] = {}
    flat: Flat | None = None


def find_extra(lines: Iterable[bytes]) -> dict[str, str]:
    """Returns the fields of rows that are no fields of results, with their kinds, in order."""
    kinds: dict[str, set[str]] = {}
    for line in lines:
        for name, value in orjson.loads(line).items():
            if name not in _KNOWN:
                kinds.setdefault(name, set()).update(() if value is None else (_kind(value),))
    return {name: _common(found) for name, found in kinds.items()}


def _kind(value: Any) -> str:
    if type(value) is int and abs(value) >= _MAX_INTEGER:
        return JSON
    return {str: TEXT, bool: BOOLEAN, int: INTEGER, float: NUMBER}.get(type(value), JSON)


def _common(kinds: set[str]) -> str:
    if kinds == {INTEGER, NUMBER}:
        return NUMBER
    return kinds.pop() if len(kinds) == 1 else JSON if kinds else TEXT


def write_json_lines(lines: Iterable[bytes], file: BinaryIO, layout: Layout) -> None:
    """Writes rows as JSON Lines."""
    del layout
    file.writelines(lines)


def write_csv(lines: Iterable[bytes], file: BinaryIO, layout: Layout) -> None:
    """Writes rows as CSV; an absent field is an empty cell.

    Args:
      lines: the rows, as lines of JSON.
      file: the file.
      layout: the columns. If it is flat, the lists of a result have columns of their own, see
        `flat_columns`; otherwise a list is a cell of JSON.
    """
    columns, flat, renamed = list(layout.columns), layout.flat, _renamed(layout)
    if flat is not None:
        columns = [y for x in columns for y in flat_columns(renamed.get(x, x), flat)]
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in map(parse_line, lines):
        fields = row if flat is None else dict(_flat_fields(row, flat, renamed))
        writer.writerow({name: _cell(value) for name, value in fields.items()})
    text.detach()


def _renamed(layout: Layout) -> dict[str, str]:
    """Returns new names for the passed fields with the name of a column of flat CSV."""
    if layout.flat is None:
        return {}
    found: dict[str, str] = {}
    own = {x for name in RESULT_FIELDS for x in flat_columns(name, layout.flat)}
    for name in layout.columns:
        if name in own - _KNOWN:
            names = (number * "input_" + name for number in itertools.count(1))
            found[name] = next(x for x in names if x not in layout.columns)
    return found


def _cell(value: Any) -> Any:
    return to_line(value).decode().rstrip() if isinstance(value, list | dict | bool) else value


def flat_columns(name: str, flat: Flat) -> list[str]:
    """Returns the columns of a field in flat CSV.

    There is one column for each head's value and for each tree's value, counted from 1. The moves
    of `pv` are one text, with spaces between them. So are the moves of `legal`, and their weights,
    visits, Q-values and probabilities by each head, in the same order in each column.
    """
    if name in ("network_value", "tree_values"):
        number = flat.heads if name == "network_value" else flat.trees
        return [f"{name}_{i}" for i in range(1, number + 1)]
    if name == "legal":
        policies = (f"legal_network_policy_{i}" for i in range(1, flat.heads + 1))
        return [*_FLAT_MOVES, *policies]
    return [name]


def _flat_fields(row: Row, flat: Flat, renamed: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Yields the columns of a row and their values."""
    for name, value in row.items():
        if value is None:
            continue
        if name in ("network_value", "tree_values"):
            yield from ((f"{name}_{i}", x) for i, x in enumerate(value, 1))
        elif name == "pv":
            yield name, _join(value)
        elif name == "legal":
            for column, key in _FLAT_MOVES.items():
                yield column, _join(x[key] for x in value)
            for i in range(flat.heads):
                yield f"legal_network_policy_{i + 1}", _join(x["network_policy"][i] for x in value)
        else:
            yield renamed.get(name, name), value


def _join(values: Iterable[Any]) -> str:
    return " ".join(_MISSING if x is None else str(x) for x in values)


def write_parquet(lines: Iterable[bytes], file: BinaryIO, layout: Layout) -> None:
    """Writes rows as Parquet with nested columns; ids become strings."""
    arrow, parquet = require_arrow()
    reader = importlib.import_module("pyarrow.json")
    schema = _schema(arrow, layout)
    parsing = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    texts = ["id", *(name for name, kind in layout.extra.items() if kind == JSON)]
    lines = (_with_texts(line, texts) for line in lines)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := b"".join(itertools.islice(lines, _ROWS_PER_GROUP)):
            reading = reader.ReadOptions(use_threads=False, block_size=len(group))
            table = reader.read_json(io.BytesIO(group), reading, parsing)
            writer.write_table(table, row_group_size=_ROWS_PER_GROUP)


def _with_texts(line: bytes, names: Iterable[str]) -> bytes:
    """Replaces the id and values that have no column type of their own by text."""
    row = parse_line(line)
    for name in names:
        if row.get(name) is not None and not isinstance(row[name], str):
            row[name] = to_line(row[name]).decode().rstrip()
    return to_line(row)


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
    """Imports and returns the modules pyarrow and pyarrow.parquet."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(
            'pyarrow is not installed; run pip install "dualmctx[parquet]", or use an --out file '
            "that ends in .jsonl or .csv"
        ) from None


WRITERS: dict[str, Callable[..., None]] = {
    ".jsonl": write_json_lines,
    ".csv": write_csv,
    ".parquet": write_parquet,
}
"""The writer of each file format, by suffix, as `write_csv`."""
_COMPRESSED = (".jsonl", ".csv")


def write_results(
    lines: Iterable[bytes],
    path: Path,
    layout: Layout | None = None,
    write: Callable[[Iterable[bytes], BinaryIO], None] | None = None,
) -> None:
    """Writes rows atomically to a file, in the format and with the compression of its suffixes.

    Args:
      lines: the rows, as lines of `to_line`.
      path: the file.
      layout: the columns of CSV and Parquet; by default the fields of results.
      write: the writer; by default that of the format in `WRITERS`.
    """
    form, compression = split_suffix(path)
    write = write or functools.partial(WRITERS[form], layout=layout or Layout())
    with atomic_path(path) as draft, open_compressed(draft, compression) as file:
        write(lines, file)


def has_columns(path: Path) -> bool:
    """Returns whether the format of a file has columns, which must be known before the rows."""
    return split_suffix(path)[0] in (".csv", ".parquet")


def check_results(path: Path, others: Sequence[str] = ()) -> None:
    """Checks the folder and the format of a file of results; `others` are further text formats."""
    form, compression = split_suffix(path)
    texts = (*_COMPRESSED, *others)
    if form not in (texts if compression else (*WRITERS, *others)):
        known, compressed = ", ".join((*WRITERS, *others)), ", ".join(texts)
        raise UserError(
            f"out is {path}; it must end in one of {known}, or be -; .gz and .zst may follow "
            f"{compressed}"
        )
    if not path.parent.is_dir():
        raise UserError(f"out is {path}; the folder {path.parent} does not exist")
    if form == ".parquet":
        require_arrow()
    require_compression(path)
