"""The fields of requested positions and of results, and the selection of some of them."""

import difflib
from collections.abc import Collection, Iterable
from typing import Any

from dualmctx.errors import UserError

Row = dict[str, Any]
POSITION_FIELDS = ("id", "moves", "fen")
"""The fields of a requested position."""
RESULT_FIELDS = (
    *("id", "line", "error", "action", "move", "value", "network_value", "tree_values"),
    *("pv", "heads_agree", "heads_distance", "legal"),
)
"""The fields of a result, in this order."""
ECHOED_FIELDS = ("moves", "fen")
"""The fields of a position that are repeated in its result on request."""
_RESERVED = frozenset(RESULT_FIELDS)
_KNOWN = frozenset(POSITION_FIELDS)
_PREFIX = "input_"


def extra_fields(fields: Row) -> Row | None:
    """Returns the fields of a position that are passed through to its result.

    Args:
      fields: all fields of the position.

    Returns:
      The fields that have no meaning for a position; the name of a field of results gets the prefix
      `input_`. `None` if there are none.

    Raises:
      ValueError: if two fields would have the same name.
    """
    if fields.keys() <= _KNOWN:
        return None
    extra: Row = {}
    for name, value in fields.items():
        if name in _KNOWN:
            continue
        renamed = _PREFIX + name if name in _RESERVED else name
        if renamed in extra or (renamed != name and renamed in fields):
            raise UserError(
                f"{name} would be {renamed} in the results, as another field; rename one of them"
            )
        extra[renamed] = value
    return extra


def check_fields(fields: Iterable[str], extra: Iterable[str]) -> None:
    """Checks the names of selected fields.

    Args:
      fields: the names.
      extra: names of the fields that are passed through.

    Raises:
      ValueError: if there is no such field, or a field is named twice.
    """
    fields = list(fields)
    known = list(dict.fromkeys((*RESULT_FIELDS, *ECHOED_FIELDS, *extra)))
    for name in fields:
        if name not in known:
            raise UserError(
                f"fields has {name}{perhaps(name, known)}; the fields are {', '.join(known)}"
            )
        if fields.count(name) > 1:
            raise UserError(f"fields has {name} twice; name it once")


def perhaps(name: str, known: Collection[str], cutoff: float = 0.6) -> str:
    """Returns `, perhaps you meant NAME` with the most similar known name, or an empty text.

    Capitals make no difference.

    Args:
      name: the unknown name.
      known: the known names.
      cutoff: the smallest similarity, from 0 to 1, of a name that is meant.
    """
    found = {x.lower(): x for x in known}
    similar = difflib.get_close_matches(name.lower(), found, n=1, cutoff=cutoff)
    return f", perhaps you meant {found[similar[0]]}" if similar else ""


def select(row: Row, fields: Iterable[str]) -> Row:
    """Returns the selected fields of a row, in their order; an error is always kept."""
    selected = {name: row[name] for name in fields if name in row}
    if "error" in row and "error" not in selected:
        selected["error"] = row["error"]
    return selected
