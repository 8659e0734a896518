"""Tables of text for terminals, HTML pages and Markdown, of columns that are declared as data."""

import html
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import rich.table
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from dualmctx.reports.numbers import show_number

Columns = Mapping[str, Callable[[Any], str]]
"""The columns of a table: the title of each, and the format of its cell in a record."""

# Characters between two columns, and in a line of a long cell: at most, and on narrow terminals.
_GAP, _LONG, _SHORT = 2, 40, 8
# A table of this many characters fits 1,280 pixels, and the width of A4 paper in the printed size.
_PAGE_WIDTH, _PAGE_GAP, _PAGE_LONG = 108, 3, 30


def entry(name: str, show: Callable[..., str] = show_number, *args: Any) -> Callable[[Any], str]:
    """Returns the format of a column that shows one entry of a record by `show(value, *args)`."""
    return lambda record: show(record[name], *args)


class Table(NamedTuple):
    """A table of text. `rich.console.Console.print` and Jinja templates take it as it is.

    A table that is too wide for a terminal or a page is split into several, each with the first
    column. Long cells are wrapped.

    Attributes:
      title: the text above; empty for none.
      head: the titles of the columns.
      rows: the rows, with one cell per column; the first cell names the row.
      caption: the text below on a terminal; empty for none.
      left: the titles of columns with words, which are aligned to the left, as the first one is.
    """

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    caption: str = ""
    left: tuple[str, ...] = ()

    @classmethod
    def of(cls, title: str, columns: Columns, records: Iterable[Any], **more: Any) -> "Table":
        """Makes a table with a row for each record.

        Args:
          title: the title.
          columns: the columns.
          records: the records, in the form that the formats of the columns take.
          **more: further attributes.
        """
        rows = [tuple(show(record) for show in columns.values()) for record in records]
        return cls(title, tuple(columns), rows, **more)

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[rich.table.Table]:
        """Yields the parts of the table that fit a terminal."""
        longest = max(min(_LONG, options.max_width // 2), _SHORT)
        for part in self.split(options.max_width, gap=_GAP, longest=longest):
            yield part._to_rich(options.max_width, longest)

    def _to_rich(self, max_width: int, longest: int) -> rich.table.Table:
        shown = _empty(
            title=Text(self.title, style="bold") if self.title else None,
            caption=Text(self.caption) if self.caption else None,
            title_justify="left",
            caption_justify="left",
        )
        columns = [*self._columns()]
        has_room = sum(max(map(cell_len, x)) + _GAP for x in columns) - _GAP <= max_width
        for number, (head, *cells) in enumerate(columns):
            width = _width(head, *cells)
            wrapped = textwrap.fill(head, max(width, 1), break_on_hyphens=False)
            shown.add_column(
                Text(head if has_room else wrapped),
                justify=self._justify(number),
                no_wrap=width <= longest,
                overflow="fold",
            )
        for row in self.rows:
            shown.add_row(*map(Text, row))
        return shown

    def to_lines(self, widths: Mapping[str, int], *, has_head: bool) -> rich.table.Table:
        """Returns a line for each row, for a terminal on which several tables make one.

        The places of the columns depend on the terminal only: `widths` has the characters of some
        columns, by their titles, and the others share the rest equally. Longer cells end in an
        ellipsis. The title and the caption are left out.
        """
        shown = _empty(show_header=has_head, expand=not {*self.head} <= {*widths})
        for number, head in enumerate(self.head):
            shown.add_column(
                Text(head),
                justify=self._justify(number),
                width=widths.get(head),
                ratio=None if head in widths else 1,
                no_wrap=True,
                overflow="ellipsis",
            )
        for row in self.rows:
            shown.add_row(*map(Text, row))
        return shown

    def _justify(self, number: int) -> Literal["left", "right"]:
        return "right" if number and self.head[number] not in self.left else "left"

    def __html__(self) -> str:
        """Returns HTML: the parts of the table that fit a page, on a screen and on paper."""
        parts = self.split(_PAGE_WIDTH, gap=_PAGE_GAP, longest=_PAGE_LONG)
        return "\n".join(part._to_html() for part in parts)

    def _to_html(self) -> str:
        def cell(number: int, text: str) -> str:
            name = "name" if number == 0 else "long" if len(text) > _PAGE_LONG else "number"
            return f'<td class="{name}">{html.escape(text)}</td>'

        head = "".join(f"<th>{html.escape(text)}</th>" for text in self.head)
        rows = ("".join(cell(*x) for x in enumerate(row)) for row in self.rows)
        title = [f"<h3>{html.escape(self.title)}</h3>"] if self.title else []
        lines = (f"<tr>{cells}</tr>" for cells in (head, *rows))
        return "\n".join((*title, "<table>", *lines, "</table>"))

    def to_markdown(self) -> str:
        """Returns Markdown: the title in bold, and the table."""
        lines = (self.head, ["---"] * len(self.head), *self.rows)
        cells = ([text.replace("|", r"\|") for text in line] for line in lines)
        table = "\n".join(f"| {' | '.join(line)} |" for line in cells)
        return f"**{self.title}**\n\n{table}" if self.title else table

    def split(self, width: int, *, gap: int, longest: int) -> list["Table"]:
        """Splits a wide table into tables with the same rows and fewer columns.

        Every part repeats the first column, and has at least one other column, however wide. The
        other columns keep their order. The parts have about equally many of them. The head of a
        column may be wrapped between words.

        Args:
          width: width of a part in characters.
          gap: number of characters between two columns.
          longest: a longer cell is wrapped, so its column needs no more than this number of
            characters.

        Returns:
          The parts. The first one has the title, the last one has the caption.
        """
        first, *others = (min(_width(*column), longest) for column in self._columns())
        groups = _pack(others, width - first, gap)
        return [
            self._replace(
                title=self.title if number == 0 else "",
                head=(self.head[0], *(self.head[1 + i] for i in group)),
                rows=[(row[0], *(row[1 + i] for i in group)) for row in self.rows],
                caption=self.caption if number == len(groups) - 1 else "",
            )
            for number, group in enumerate(groups)
        ]

    def _columns(self) -> Iterator[tuple[str, ...]]:
        """Yields the title and the cells of each column."""
        return zip(self.head, *self.rows, strict=True)


def _empty(**more: Any) -> rich.table.Table:
    """Returns a table without columns; the box adds one space between them."""
    return rich.table.Table(
        box=box.SIMPLE_HEAD,
        padding=(0, _GAP - 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        **more,
    )


def _width(head: str, *cells: str) -> int:
    """Returns the number of characters of the longest word of the head, or the longest cell."""
    return max(map(cell_len, (*head.split(), *cells)), default=0)


def _pack(widths: list[int], width: int, gap: int) -> list[range]:
    """Packs columns, in order, into the least number of groups of equal size that fit a width."""
    total = len(widths)
    for number in range(1, total + 1):
        size = -(-total // number)
        groups = [range(i, min(i + size, total)) for i in range(0, total, size)]
        if size == 1 or all(sum(widths[i] + gap for i in group) <= width for group in groups):
            return groups
    return [range(0)]
