"""Tables of reports, and their split into tables that fit the width of a page or a terminal."""

from typing import NamedTuple

from rich.cells import cell_len


class Table(NamedTuple):
    """A table of a report.

    Attributes:
      title: the title; empty for no title.
      head: the column names.
      rows: the rows, with one cell per column; the first cell names the row.
    """

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def split_columns(table: Table, width: int, *, gap: int, longest: int) -> list[Table]:
    """Splits a wide table into tables with the same rows and fewer columns.

    Every part repeats the first column, and has at least one other column, however wide. The
    other columns keep their order. The parts have about equally many of them. The head of a column
    may be wrapped between words.

    Args:
      table: the table.
      width: width of a part in characters.
      gap: number of characters between two columns.
      longest: a longer cell is wrapped, so its column needs no more than this number of characters.

    Returns:
      The parts. The first one has the title.
    """
    columns = zip(table.head, *table.rows, strict=True)
    first, *others = (min(_width(*column), longest) for column in columns)
    groups = _pack(others, width - first, gap)
    return [
        Table(
            table.title if number == 0 else "",
            (table.head[0], *(table.head[1 + i] for i in group)),
            [(row[0], *(row[1 + i] for i in group)) for row in table.rows],
        )
        for number, group in enumerate(groups)
    ]


def _width(head: str, *cells: str) -> int:
    """Returns the number of characters of the longest word of the head, or the longest cell."""
    return max(map(cell_len, (*head.split(), *cells)), default=0)


def _pack(widths: list[int], width: int, gap: int) -> list[list[int]]:
    """Packs columns, in order, into the least number of groups that fit a width."""

    def pack(most: int) -> list[list[int]]:
        groups: list[list[int]] = [[]]
        for i, own in enumerate(widths):
            used = sum(widths[j] + gap for j in groups[-1])
            if groups[-1] and (used + own + gap > width or len(groups[-1]) == most):
                groups.append([])
            groups[-1].append(i)
        return groups

    number = len(pack(len(widths)))
    # Equal numbers of columns look better than full parts and a rest.
    sizes = range(1, len(widths) + 1)
    return next((groups for most in sizes if len(groups := pack(most)) == number), [[]])
