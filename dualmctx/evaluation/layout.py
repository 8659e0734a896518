"""The columns of a file of results, and the types of those that come from the positions."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from dualmctx.evaluation.fields import RESULT_FIELDS

TEXT, INTEGER, NUMBER, BOOLEAN, JSON = "text", "integer", "number", "boolean", "json"
_MAX_INTEGER = 2**63
_KNOWN = frozenset(RESULT_FIELDS)


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
                kind = _kind(value)
                kinds.setdefault(name, set()).update(() if kind is None else (kind,))
    return {name: _common(found) for name, found in kinds.items()}


def _kind(value: Any) -> str | None:
    """Returns the kind of a value; an integer of more than 64 bits has been read as a float."""
    if value is None:
        return None
    if isinstance(value, float) and abs(value) >= _MAX_INTEGER:
        return JSON
    kinds = {str: TEXT, bool: BOOLEAN, int: INTEGER, float: NUMBER}
    kind = kinds.get(type(value), JSON)
    return JSON if kind == INTEGER and abs(value) >= _MAX_INTEGER else kind


def _common(kinds: set[str]) -> str:
    if kinds == {INTEGER, NUMBER}:
        return NUMBER
    return kinds.pop() if len(kinds) == 1 else JSON if kinds else TEXT
