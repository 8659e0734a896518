"""Shows results as a table on a terminal, each batch as soon as it is evaluated."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rich.text import Text

from dualmctx.console import Console, printable
from dualmctx.evaluation.questions import Row
from dualmctx.reports.numbers import show_decimal, show_share

_FIELDS = ("id", "move", "value", "network_value", "legal", "pv")
# The most likely moves that the column of legal moves names.
_MOVES_SHOWN = 3
_MIN_WIDTH, _GAP = 6, 2
_NOTE = (
    "value, network: from -1 to 1 for the player to move. moves: by their share of the search. "
    "All fields: --out FILE, or --out - for JSON Lines."
)


class _Column(NamedTuple):
    """A column: its title, its width in characters at most, and the text of a value."""

    title: str
    width: int
    to_text: Callable[[Any], str]
    justify: Any = "left"


def _number(value: Any) -> str:
    return show_decimal(value, 3) if isinstance(value, float) else str(value)


def _join(values: Sequence[Any]) -> str:
    return " ".join(_number(x) for x in values if x is not None)


def _likely_moves(legal: list[Row]) -> str:
    """Returns the moves with the largest shares, without those that round to 0 %."""
    best = sorted(legal, key=lambda move: -move["weight"])[:_MOVES_SHOWN]
    shares = ((move["move"], show_share(move["weight"])) for move in best)
    return ", ".join(f"{move} {share}" for move, share in shares if share != "0%")


def _any(value: Any) -> str:
    return _join(value) if isinstance(value, list) else _number(value)


_COLUMNS = {
    "id": _Column("id", 12, str),
    "move": _Column("move", 8, str),
    "value": _Column("value", 6, _number, "right"),
    "network_value": _Column("network", 20, _join, "right"),
    "tree_values": _Column("trees", 20, _join, "right"),
    "legal": _Column("moves", 22, _likely_moves),
    "pv": _Column("principal variation", 30, _join),
}


class ResultTable:
    """Prints rows of results below one header.

    The widths of the columns follow from the first rows and the width of the terminal; longer texts
    are cut.
    """

    def __init__(self, console: Console, fields: Sequence[str] | None = None) -> None:
        self._console = console
        self._fields = tuple(fields or _FIELDS)
        self._columns = [_COLUMNS.get(name) or _Column(name, 30, _any) for name in self._fields]
        self._has_note = fields is None
        self._widths: list[int] = []

    def __call__(self, rows: list[Row]) -> None:
        """Prints the rows of a batch."""
        texts = [self._texts(row) for row in rows]
        if not self._widths:
            self._widths = self._choose_widths(texts)
            self._print([column.title for column in self._columns], "bold")
            self._print(["─" * width for width in self._widths], separator="─" * _GAP)
        for row, cells in zip(rows, texts, strict=True):
            if "error" in row:
                # An error has a line of its own.
                text = f"{row.get('id', row.get('line', ''))}: {row['error']}"
                self._console.print(Text(printable(text), style="red"))
            else:
                self._print(cells)

    def close(self) -> None:
        """Prints the meaning of the columns."""
        if self._widths and self._has_note:
            self._console.print(Text(_NOTE, style="dim"))

    def _texts(self, row: Row) -> list[str]:
        return [
            "" if row.get(field) is None else printable(column.to_text(row[field]))
            for field, column in zip(self._fields, self._columns, strict=True)
        ]

    def _choose_widths(self, texts: list[list[str]]) -> list[int]:
        """Returns a width for each column; a last column of text takes the rest of the terminal."""
        widths = []
        for column, *cells in zip(self._columns, *texts, strict=True):
            longest = max(map(len, cells), default=0)
            # Later rows may be longer.
            widths.append(max(len(column.title), min(max(longest, _MIN_WIDTH), column.width)))
        if self._columns[-1].justify == "left":
            rest = self._console.width - sum(widths[:-1]) - _GAP * (len(widths) - 1)
            widths[-1] = max(rest, len(self._columns[-1].title))
        return widths

    def _print(self, cells: list[str], style: str = "", separator: str = " " * _GAP) -> None:
        """Prints a line; a narrow terminal cuts the last columns."""
        texts = [Text(cell, style) for cell in cells]
        for text, column, width in zip(texts, self._columns, self._widths, strict=True):
            text.truncate(width, overflow="ellipsis")
            text.align(column.justify, width)
        line = Text(separator).join(texts)
        self._console.print(line, no_wrap=True, overflow="ellipsis")
