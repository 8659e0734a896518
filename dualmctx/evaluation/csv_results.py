"""Writes result rows as CSV: lists as cells of JSON, or one column per scalar."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import orjson

from dualmctx.evaluation.fields import RESULT_FIELDS, Row
from dualmctx.evaluation.layout import Flat, Layout
from dualmctx.runs.journal import parse_line

_LEGAL = b',"legal":'
# Stands for a missing number in a list, where an empty text would not be visible.
_MISSING = "-"


def write_csv(lines: Iterable[bytes], file: BinaryIO, layout: Layout) -> None:
    """Writes rows as CSV; an absent field is an empty cell.

    Args:
      lines: the rows, as lines of JSON.
      file: the file.
      layout: the columns. If it is flat, the lists of a result have columns of their own, see
        `flat_columns`; otherwise a list is a cell of JSON.
    """
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    if layout == Layout():
        _write_default(lines, text, writer)
    else:
        columns, to_cells = layout.columns, _nested_cells
        if layout.flat is not None:
            columns = [x for name in columns for x in flat_columns(name, layout.flat)]
            to_cells = _flat_cells
        writer.writerow(columns)
        for line in lines:
            cells = dict(to_cells(parse_line(line), layout))
            writer.writerow([cells.get(name) for name in columns])
    text.detach()


def _write_default(lines: Iterable[bytes], file: io.TextIOWrapper, writer: Any) -> None:
    """Writes rows with all fields of results and no others.

    The last field, `legal`, is by far the longest, and its cell is its JSON, so it is not parsed. A
    quote inside of a text has a backslash, so the name of the field occurs nowhere else.
    """
    writer.writerow(RESULT_FIELDS)
    cells_writer = csv.writer(file, lineterminator="")
    for line in lines:
        head, separator, legal = line.rstrip().partition(_LEGAL)
        row = parse_line(head + b"}" if separator else head)
        cells_writer.writerow([_cell(row.get(name)) for name in RESULT_FIELDS[:-1]])
        text = legal.decode().removesuffix("}").replace('"', '""')
        file.write(f',"{text}"\n' if '"' in text else f",{text}\n")


def _cell(value: Any) -> Any:
    if not isinstance(value, list | dict | bool):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # orjson has no integers of more than 64 bits.
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def flat_columns(name: str, flat: Flat) -> list[str]:
    """Returns the columns of a field in flat CSV.

    There is one column for each head's value and for each tree's value, counted from 1. The moves
    of `pv` are one text, with spaces between them. So are the moves of `legal`, and their weights,
    visits, Q-values and probabilities by each head, in the same order in each column.
    """
    if name == "network_value":
        return [f"{name}_{i}" for i in range(1, flat.heads + 1)]
    if name == "tree_values":
        return [f"{name}_{i}" for i in range(1, flat.trees + 1)]
    if name == "legal":
        policies = (f"legal_network_policy_{i}" for i in range(1, flat.heads + 1))
        return ["legal_moves", "legal_weights", "legal_visits", "legal_q", *policies]
    return [name]


def _nested_cells(row: Row, layout: Layout) -> Iterator[tuple[str, Any]]:
    return ((name, _cell(row.get(name))) for name in layout.columns)


def _flat_cells(row: Row, layout: Layout) -> Iterator[tuple[str, Any]]:
    for name in layout.columns:
        value = row.get(name)
        if value is None:
            continue
        if name in ("network_value", "tree_values"):
            yield from ((f"{name}_{i}", x) for i, x in enumerate(value, 1))
        elif name == "pv":
            yield name, _join(value)
        elif name == "legal":
            for key, column in (("move", "moves"), ("weight", "weights"), ("visits", "visits")):
                yield f"legal_{column}", _join(x[key] for x in value)
            yield "legal_q", _join(x["q"] for x in value)
            for i in range(layout.flat.heads if layout.flat else 0):
                yield f"legal_network_policy_{i + 1}", _join(x["network_policy"][i] for x in value)
        else:
            yield name, _cell(value)


def _join(values: Iterable[Any]) -> str:
    return " ".join(_MISSING if x is None else str(x) for x in values)
