"""Shows results as a table on a terminal, each batch as soon as it is evaluated."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.markup import escape
from rich.table import Table

from dualmctx.console import Console, printable
from dualmctx.evaluation.questions import Row
from dualmctx.runs.numbers import show_decimal, show_share

_FIELDS = ("id", "move", "value", "network_value", "legal", "pv")
# The most likely moves that the column of legal moves names.
_MOVES_SHOWN = 3
_MIN_WIDTH = 6
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
        self._has_all = fields is None
        self._widths: list[int] = []

    def __call__(self, rows: list[Row]) -> None:
        """Prints the rows of a batch."""
        is_first = not self._widths
        texts = [self._texts(row) for row in rows]
        if is_first:
            self._widths = self._choose_widths(texts)
        # An error has a line of its own.
        pairs = zip(rows, texts, strict=True)
        for is_error, group in itertools.groupby(pairs, lambda pair: "error" in pair[0]):
            if is_first or not is_error:
                self._print_table([] if is_error else [text for _, text in group], is_first)
                is_first = False
            if is_error:
                for row, _ in group:
                    name = row.get("id", row.get("line", ""))
                    text = escape(printable(f"{name}: {row['error']}"))
                    self._console.print(f"[red]{text}[/red]", highlight=False)

    def close(self) -> None:
        """Prints the meaning of the columns."""
        if self._widths and self._has_all:
            self._console.print(f"[dim]{_NOTE}[/dim]", highlight=False)

    def _texts(self, row: Row) -> list[str]:
        return [
            "" if row.get(field) is None else printable(self._column(field).to_text(row[field]))
            for field in self._fields
        ]

    def _column(self, field: str) -> _Column:
        return _COLUMNS.get(field) or _Column(field, 30, _any)

    def _choose_widths(self, texts: list[list[str]]) -> list[int]:
        """Returns a width for each column; a last column of text takes the rest of the terminal."""
        columns = [self._column(field) for field in self._fields]
        widths = []
        for i, column in enumerate(columns):
            longest = max((len(text[i]) for text in texts), default=0)
            # Later rows may be longer.
            widths.append(max(len(column.title), min(max(longest, _MIN_WIDTH), column.width)))
        if columns[-1].justify == "left":
            # Two spaces separate columns.
            rest = self._console.width - sum(widths[:-1]) - 2 * (len(widths) - 1)
            widths[-1] = max(rest, len(columns[-1].title))
        return widths

    def _print_table(self, texts: list[list[str]], with_header: bool) -> None:
        table = Table(box=box.SIMPLE_HEAD, show_header=with_header, show_edge=False, pad_edge=False)
        # With the space between columns of the box, two spaces separate columns.
        table.padding = (0, 1, 0, 0)
        for field, width in zip(self._fields, self._widths, strict=True):
            column = self._column(field)
            table.add_column(
                column.title, width=width, justify=column.justify, no_wrap=True, overflow="ellipsis"
            )
        for text in texts:
            table.add_row(*map(escape, text))
        self._console.print(table)
