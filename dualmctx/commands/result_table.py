"""Shows results as a table on a terminal, each batch as soon as it is evaluated."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import rich.table
from rich.text import Text

from dualmctx.console import Console, printable
from dualmctx.game_files.questions import Row
from dualmctx.reports.numbers import show_decimal, show_share

_FIELDS = ("id", "move", "value", "network_value", "legal", "pv")
# The most likely moves that the column of legal moves names.
_MOVES_SHOWN = 3
_NOTE = (
    "value, network: from -1 to 1 for the player to move. moves: by their share of the search. "
    "All fields: --out FILE, or --out - for JSON Lines."
)


def _number(value: Any) -> str:
    return show_decimal(value, 3) if isinstance(value, float) else str(value)


def _join(values: Any) -> str:
    if not isinstance(values, list):
        return _number(values)
    return " ".join(_number(x) for x in values if x is not None)


def _likely_moves(legal: list[Row]) -> str:
    """Returns the moves with the largest shares, without those that round to 0 %."""
    best = sorted(legal, key=lambda move: -move["weight"])[:_MOVES_SHOWN]
    shares = ((move["move"], show_share(move["weight"])) for move in best)
    return ", ".join(f"{move} {share}" for move, share in shares if share != "0%")


class _Column(NamedTuple):
    """A column: its title, its width in characters, and the text of a value."""

    title: str
    width: int
    to_text: Callable[[Any], str] = _join
    justify: Any = "left"


_COLUMNS = {
    "id": _Column("id", 10, str),
    "move": _Column("move", 6, str),
    "value": _Column("value", 6, justify="right"),
    "network_value": _Column("network", 18, justify="right"),
    "tree_values": _Column("trees", 18, justify="right"),
    "legal": _Column("moves", 17, _likely_moves),
    "pv": _Column("expected line", 13),
}
_OTHER_WIDTH = 15


class ResultTable:
    """Prints rows of results below one header; longer texts are cut."""

    def __init__(self, console: Console, fields: Sequence[str] | None = None) -> None:
        self._console, self._has_note = console, fields is None
        chosen = tuple(fields or _FIELDS)
        self._columns = {x: _COLUMNS.get(x) or _Column(x, _OTHER_WIDTH) for x in chosen}
        self._has_header = False

    def __call__(self, rows: list[Row]) -> None:
        """Prints the rows of a batch; an error has a line of its own."""
        if not self._has_header:
            self._print([column.title for column in self._columns.values()], "bold")
            self._has_header = True
        for row in rows:
            if "error" in row:
                text = f"{row.get('id', row.get('line', ''))}: {row['error']}"
                self._console.print(Text(printable(text), style="red"))
            else:
                cells = ((column, row.get(name)) for name, column in self._columns.items())
                self._print(["" if x is None else printable(y.to_text(x)) for y, x in cells])

    def close(self) -> None:
        """Prints the meaning of the columns."""
        if self._has_header and self._has_note:
            self._console.print(Text(_NOTE, style="dim"))

    def _print(self, cells: list[str], style: str = "") -> None:
        """Prints a line; the last column of text takes the rest of the terminal."""
        *_, last = self._columns.values()
        table = rich.table.Table.grid(padding=(0, 2, 0, 0), expand=last.justify == "left")
        for column in self._columns.values():
            is_rest = column is last and column.justify == "left"
            width, ratio = (None, 1) if is_rest else (column.width, None)
            table.add_column(
                width=width, ratio=ratio, justify=column.justify, no_wrap=True, overflow="ellipsis"
            )
        table.add_row(*(Text(cell, style) for cell in cells))
        self._console.print(table)
