"""Plots in one style: curves over the rows of a run, bars, and Elo with intervals."""

import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dualmctx.reports.numbers import show_number

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours that colour-blind readers can tell apart, of the palette of Okabe and Ito."""
DASHES = ("-", "--", "-.", ":")
"""Dashes of lines."""
SHARES = (-0.02, 1.02)
"""Limits of an axis of shares."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DPI = 110
# Distance, in Elo, from the known values to an unbounded end in a plot.
_BEYOND = 50.0
# Shares of a logarithmic axis: the margin at both ends, and the gap between points that stay.
_MARGIN, _GAP = 0.08, 0.035
# Height of a line of text in a legend or beside an axis, in inches.
_LINE = 0.19


class Line(NamedTuple):
    """A line of a panel.

    Attributes:
      entry: the entry of the rows that it shows; a row without the entry is left out, and `None` is
        a gap.
      label: its text in the legend; empty for none.
      color: its colour.
      dashes: its dashes.
      marker: the marker of each row; empty for none.
      ends: the entries of the ends of its interval; empty for none.
    """

    entry: str
    label: str = ""
    color: str = COLORS[0]
    dashes: str = "-"
    marker: str = "."
    ends: tuple[str, ...] = ()


class Panel(NamedTuple):
    """A panel of curves.

    Attributes:
      title: the title.
      lines: the lines.
      ylabel: the label of the y axis.
      limits: the limits of the y axis; `None` to let the lines choose.
      reference: a value that a horizontal line marks.
      is_log: whether the y axis is logarithmic.
    """

    title: str
    lines: Sequence[Line]
    ylabel: str = ""
    limits: tuple[float | None, float | None] = (None, None)
    reference: float | None = None
    is_log: bool = False


def plot_curves(
    panels: Sequence[Panel],
    rows: Sequence[Mapping[str, Any]],
    title: str,
    file: Path,
    *,
    x: tuple[str, str] = ("iteration", "iteration"),
) -> None:
    """Plots panels side by side over the rows of a run.

    Args:
      panels: the panels.
      rows: the rows of `metrics.jsonl`.
      title: the title of the picture.
      file: the file to write; its suffix sets the format.
      x: the entry of the x axis, and its label.
    """
    figure = Figure(figsize=(2 + 3.5 * len(panels), 4.4), layout="constrained")
    places = figure.subplots(1, len(panels), squeeze=False).flat
    for axes, panel in zip(places, panels, strict=True):
        draw_panel(axes, panel, rows, x)
    save_figure(figure, title, file)


def draw_panel(
    axes: Axes,
    panel: Panel,
    rows: Sequence[Mapping[str, Any]],
    x: tuple[str, str] = ("iteration", "iteration"),
) -> None:
    """Draws a panel; see `plot_curves`."""
    for line in panel.lines:
        _draw_line(axes, line, [row for row in rows if line.entry in row], x[0])
    if panel.is_log:
        values = (row.get(line.entry) for row in rows for line in panel.lines)
        set_log_axis(axes.yaxis, [y for y in values if y is not None and 0 < y < math.inf])
    else:
        axes.set_ylim(*panel.limits)
    if labels := axes.get_legend_handles_labels()[1]:
        # Below the axis, where it covers no line.
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15)}
        axes.legend(fontsize=8, ncols=1 + (len(labels) > 3), **place)
    if panel.reference is not None:
        axes.axhline(panel.reference, color="black", linewidth=0.8)
    axes.set(title=panel.title, xlabel=x[1], ylabel=panel.ylabel)
    if x[0] == "iteration":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)


def _draw_line(axes: Axes, line: Line, rows: Sequence[Mapping[str, Any]], x: str) -> None:
    if not rows:
        return
    places = [row[x] for row in rows]
    values, *ends = (
        [math.nan if row.get(name) is None else row[name] for row in rows]
        for name in (line.entry, *line.ends)
    )
    if ends:
        low, high = ends
        axes.fill_between(places, low, high, color=line.color, alpha=0.2, linewidth=0)
    style: dict[str, Any] = {"color": line.color, "linestyle": line.dashes, "marker": line.marker}
    axes.plot(places, values, label=line.label, **style)


def draw_elo(players: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Draws the Elo of players with intervals; an arrow marks an unbounded end.

    `players` are rows of a report, the best first.
    """
    lines = [wrap(row["name"], 32).count("\n") + 1.5 for row in players]
    height = sum(max(0.4, _LINE * number) for number in lines)
    figure = Figure(figsize=(8, 1.4 + height), layout="constrained")
    axes = figure.subplots()
    least, most = _limits(players)
    for place, row in enumerate(players):
        style = mark_style(place)
        low, high = _ends(row, least, most)
        axes.plot([low, high], [place, place], color=style["color"], lw=2)
        for end, x, mark in (("low", low, "<"), ("high", high, ">")):
            if row[end] is None:
                axes.plot(x, place, marker=mark, color=style["color"], clip_on=False)
        if row["elo"] is not None:
            axes.plot(row["elo"], place, **style)
    axes.set_yticks(range(len(players)), [wrap(row["name"], 32) for row in players])
    axes.set(xlabel="Elo", xlim=(least, most), ylim=(len(players) - 0.5, -0.5))
    axes.set_title(wrap(title, 80))
    axes.grid(alpha=0.3)
    return figure


def draw_costs(players: Sequence[Mapping[str, Any]], title: str = "", rule: str = "") -> Figure:
    """Draws Elo over the cost of a move, for the players with both.

    Points are moved apart a little, so that those of equal cost do not cover each other.

    Args:
      players: rows of a report, the best first.
      title: the title, such as the name of the game.
      rule: the rule of the budgets; for `seconds`, the plot over time comes first.
    """
    names = [wrap(row["name"], 30) for row in players]
    lines = sum(name.count("\n") + 1.4 for name in names)
    figure = Figure(figsize=(10, max(3.8, 1 + _LINE * lines)), layout="constrained")
    panels = [
        ("blocks of the network per move", [row["blocks"] for row in players]),
        ("milliseconds per move", [1000 * row["seconds"] for row in players]),
    ]
    if rule == "seconds":
        panels.reverse()
    limits = _limits(players)
    for axes, (name, costs) in zip(figure.subplots(1, 2), panels, strict=True):
        known = zip(players, costs, strict=True)
        shown = {i: x for i, (row, x) in enumerate(known) if row["elo"] is not None and x}
        ends = set_log_axis(axes.xaxis, [*shown.values()])
        for i, place in zip(shown, spread([*shown.values()], *ends), strict=True):
            row, style = players[i], mark_style(i)
            axes.plot([place, place], _ends(row, *limits), color=style["color"], lw=1.5)
            axes.plot(place, row["elo"], **style)
        axes.set(xlabel=name, ylabel="Elo", ylim=limits)
        axes.grid(alpha=0.3)
    marks = [Line2D([], [], **mark_style(number)) for number in range(len(players))]
    figure.legend(marks, names, loc="outside right upper", fontsize=8)
    figure.suptitle(wrap(title, 90))
    return figure


def _limits(players: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    known = [row[x] for row in players for x in ("elo", "low", "high") if row[x] is not None]
    return min(known, default=0.0) - _BEYOND, max(known, default=0.0) + _BEYOND


def _ends(row: Mapping[str, Any], least: float, most: float) -> tuple[float, float]:
    low, high = row["low"], row["high"]
    return (least if low is None else low), (most if high is None else high)


def set_log_axis(axis: Axis, values: Sequence[float]) -> tuple[float, float]:
    """Makes an axis logarithmic; returns its limits, which are around the values, if there are any.

    The limits are at least a factor of two apart, and there are 2 to 8 labelled ticks.
    """
    least, most = min(values, default=1.0), max(values, default=1.0)
    factor = max((most / least) ** (_MARGIN / (1 - 2 * _MARGIN)), 1.0)
    # Nearly equal values look nearly equal.
    factor = max(factor, math.sqrt(2 * least / most))
    low, high = least / factor, most * factor
    # The limits come first, because matplotlib would look for others in values of zero.
    name = "x" if axis is axis.axes.xaxis else "y"
    axis.axes.set(**{f"{name}lim": (low, high), f"{name}scale": "log"})
    decades = math.log10(high / low)
    factors = (1, 2, 5) if decades < 2 else (1, 3) if decades < 3.5 else (1,)
    steps = LogLocator(subs=factors, numticks=6) if decades >= 1 else MaxNLocator(nbins=5)
    axis.set_major_locator(steps)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(_tick_text))
    return low, high


def _tick_text(value: float, place: int | None) -> str:
    del place
    text, *exponent = show_number(float(value)).split("e")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "e".join((text, *exponent))


def spread(values: Sequence[float], low: float, high: float) -> list[float]:
    """Moves points on a logarithmic axis apart that would cover each other.

    Points whose neighbours are farther than 3.5 % of the axis stay. The others are moved by at most
    half of that, in the order of their values.

    Args:
      values: positive positions.
      low: lower limit of the axis.
      high: upper limit of the axis.
    """
    places = np.log(np.asarray(values, float)) / math.log(high / low)
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.diff(places[order]) > _GAP) + 1
    moved = places.copy()
    for group in np.split(order, starts):
        if len(group) > 1:
            moved[group] += np.linspace(-_GAP / 2, _GAP / 2, len(group))
    return [float(x) for x in (high / low) ** moved]


def mark_style(number: int) -> dict[str, Any]:
    """Returns the colour and the marker of a series of points; 56 series differ."""
    return {"color": COLORS[number % len(COLORS)], "marker": _MARKERS[number % len(_MARKERS)]}


def wrap(name: str, width: int = 28) -> str:
    """Prepares a name for a plot: wraps it, and escapes dollars, which would start a formula."""
    return "\n".join(textwrap.wrap(name, width)).replace("$", r"\$")


def save_figure(figure: Figure, title: str, file: Path) -> None:
    """Adds a title to a figure, and saves it; the suffix of the file sets the format."""
    figure.suptitle(wrap(title, 100))
    figure.savefig(file, dpi=_DPI)


def to_png(figure: Figure) -> bytes:
    """Returns a figure as a PNG picture."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DPI)
    return file.getvalue()
