"""Tables and plots that the reports of the stages have in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich import box
from rich.table import Table

from dualmctx.runs.metrics_file import Row
from dualmctx.runs.plot_style import label


def make_table(title: str, columns: Sequence[str], caption: str | None = None) -> Table:
    """Returns a table without rows: a column of names, and the given columns of numbers.

    Args:
      title: the text above the table.
      columns: the headings of all columns; the first one is of the names.
      caption: the text below the table.
    """
    table = Table(
        title=title,
        caption=caption,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    return table


def draw_entry(axes: Axes, rows: Sequence[Row], name: str, **style: Any) -> None:
    """Draws an entry of `metrics.jsonl` over the iterations; nothing if no row has it.

    Args:
      axes: the panel.
      rows: the rows; those without the entry, or with `None`, are left out.
      name: the entry.
      **style: options of `Axes.plot`, such as `label` and `color`.
    """
    points = [(row["iteration"], row[name]) for row in rows if row.get(name) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), **style)


def finish_panel(axes: Axes, num_columns: int = 2) -> None:
    """Labels the axis of the iterations, and lists the lines with labels, if there are any."""
    axes.set(xlabel="iteration")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        # Below the axis, where it covers no line.
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15), "ncols": num_columns}
        axes.legend(fontsize=8, **place)


def save_figure(figure: Figure, title: str, file: Path) -> None:
    """Adds a title to a figure, and saves it; the suffix of the file sets the format."""
    figure.suptitle(label(title, 100))
    figure.savefig(file, dpi=110)
