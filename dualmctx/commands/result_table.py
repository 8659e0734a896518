"""Results on a terminal: a line for each result and each error."""

import functools
from typing import Any

from rich.text import Text

from dualmctx.console import Console, printable
from dualmctx.game_files.questions import Row
from dualmctx.reports.numbers import show_decimal, show_share
from dualmctx.reports.table import Table

_FIELDS = ("id", "move", "value", "network_value", "legal", "pv")
_TITLES = {
    **{"network_value": "network", "tree_values": "trees"},
    **{"legal": "moves", "pv": "expected line"},
}
# The columns that are aligned to the right.
_NUMBERS = ("value", "network_value", "tree_values")
# The other columns share the rest of the line.
_WIDTHS = {"line": 7, "move": 7, "value": 6}
# The most likely moves, and the moves of the expected line.
_MOVES_SHOWN, _LINE_SHOWN = 3, 5
NOTE = (
    "value, network: from -1 to 1 for the player to move. moves: by their share of the search. "
    "All fields: --out FILE, or --out - for JSON Lines."
)
"""The meaning of the columns that are shown by default."""


class ResultTable:
    """Prints the rows of batches below one head: the fields, or the most important ones."""

    def __init__(self, console: Console, fields: tuple[str, ...] | None) -> None:
        self._console, self._names = console, fields or _FIELDS
        self._has_head = True

    def __call__(self, rows: list[Row]) -> None:
        """Prints the rows of a batch."""
        table = Table.of(
            "",
            {_TITLES.get(name, name): functools.partial(_cell, name) for name in self._names},
            (row for row in rows if "error" not in row),
            left=tuple(_TITLES.get(name, name) for name in self._names if name not in _NUMBERS),
        )
        if table.rows:
            self._console.print(table.to_lines(_WIDTHS, has_head=self._has_head))
            self._has_head = False
        for row in rows:
            if "error" in row:
                text = f"{row.get('id', row.get('line', ''))}: {row['error']}"
                self._console.print(Text(printable(text), style="red"))


def _cell(name: str, row: Row) -> str:
    value = row.get(name)
    if name == "legal" and value is not None:
        return printable(_likely_moves(value))
    if name == "pv" and value is not None and len(value) > _LINE_SHOWN:
        value = [*value[:_LINE_SHOWN], "…"]
    return printable(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_text(x) for x in value if x is not None)
    if value is None:
        return ""
    return show_decimal(value, 3) if isinstance(value, float) else str(value)


def _likely_moves(legal: list[Row]) -> str:
    """Returns the moves with the largest shares, without those that round to 0 %."""
    best = sorted(legal, key=lambda move: -move["weight"])[:_MOVES_SHOWN]
    shares = ((move["move"], show_share(move["weight"])) for move in best)
    return ", ".join(f"{move} {share}" for move, share in shares if share != "0%")
