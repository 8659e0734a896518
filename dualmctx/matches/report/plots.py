"""Plots of a tournament: Elo with intervals, and Elo over the cost of a move."""

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dualmctx.runs.plot_style import label, mark_style, set_log_axis, spread

# Distance, in Elo, from the known values to an unbounded end in a plot.
_BEYOND = 50.0
_COSTS = {
    "blocks of the network per move": lambda row: row["blocks"],
    "milliseconds per move": lambda row: 1000 * row["seconds"],
}
# Height of a line of text in a legend or beside an axis, in inches.
_LINE = 0.19


def draw_elo(players: Sequence[dict[str, Any]], title: str = "") -> Figure:
    """Draws the Elo of players with intervals; an arrow marks an unbounded end.

    Args:
      players: rows of a report, the best first.
      title: the title, such as the name of the game.
    """
    names = [label(row["name"], 32) for row in players]
    height = sum(max(0.4, _LINE * (name.count("\n") + 1.5)) for name in names)
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
    axes.set_yticks(range(len(players)), names)
    axes.set(xlabel="Elo", xlim=(least, most), ylim=(len(players) - 0.5, -0.5))
    axes.grid(alpha=0.3)
    if title:
        axes.set_title(label(title, 80))
    return figure


def draw_costs(players: Sequence[dict[str, Any]], title: str = "", rule: str = "") -> Figure:
    """Draws Elo over the cost of a move, for the players with both.

    Points that would cover each other are placed side by side.

    Args:
      players: rows of a report, the best first.
      title: the title, such as the name of the game.
      rule: the rule of the budgets; for `seconds`, the plot over time comes first.
    """
    names = [label(row["name"], 30) for row in players]
    lines = sum(name.count("\n") + 1.4 for name in names)
    figure = Figure(figsize=(10, max(3.8, 1 + _LINE * lines)), layout="constrained")
    costs = list(_COSTS.items())
    panels = reversed(costs) if rule == "seconds" else costs
    for axes, (name, cost_of) in zip(figure.subplots(1, 2), panels, strict=True):
        _draw_panel(axes, players, [cost_of(row) for row in players])
        axes.set(xlabel=name, ylabel="Elo")
    marks = [Line2D([], [], **mark_style(number)) for number in range(len(players))]
    figure.legend(marks, names, loc="outside right upper", fontsize=8)
    if title:
        figure.suptitle(label(title, 90))
    return figure


def _draw_panel(
    axes: Axes, players: Sequence[dict[str, Any]], costs: Sequence[float | None]
) -> None:
    limits = _limits(players)
    shown = {
        number: cost
        for number, (row, cost) in enumerate(zip(players, costs, strict=True))
        if row["elo"] is not None and cost
    }
    ends = set_log_axis(axes.xaxis, list(shown.values()))
    for number, place in zip(shown, spread(list(shown.values()), *ends), strict=True):
        row, style = players[number], mark_style(number)
        axes.plot([place, place], _ends(row, *limits), color=style["color"], lw=1.5)
        axes.plot(place, row["elo"], **style)
    axes.set(ylim=limits)
    axes.grid(alpha=0.3)


def _limits(players: Sequence[dict[str, Any]]) -> tuple[float, float]:
    known = [row[x] for row in players for x in ("elo", "low", "high") if row[x] is not None]
    return min(known, default=0.0) - _BEYOND, max(known, default=0.0) + _BEYOND


def _ends(row: dict[str, Any], least: float, most: float) -> tuple[float, float]:
    low, high = row["low"], row["high"]
    return (least if low is None else low), (most if high is None else high)


def to_png(figure: Figure) -> bytes:
    """Returns a figure as a PNG picture."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()
