"""Plots of a tournament: Elo with intervals, and Elo over the cost of a move."""

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

# Distance, in Elo, from the known values to an unbounded end in a plot.
_BEYOND = 50.0
_COSTS = {
    "blocks of the network per move": lambda row: row["blocks"],
    "milliseconds per move": lambda row: 1000 * row["seconds"],
}


def draw_elo(players: Sequence[dict[str, Any]]) -> Figure:
    """Draws the Elo of players with intervals; an arrow marks an unbounded end.

    Args:
      players: rows of a report, the best first.
    """
    figure = Figure(figsize=(7, 1.2 + 0.4 * len(players)), layout="constrained")
    axes = figure.subplots()
    least, most = _limits(players)
    for place, row in enumerate(players):
        low, high = _ends(row, least, most)
        axes.plot([low, high], [place, place], color="C0", lw=2)
        for end, x, mark in (("low", low, "<"), ("high", high, ">")):
            if row[end] is None:
                axes.plot(x, place, marker=mark, color="C0", clip_on=False)
        if row["elo"] is not None:
            axes.plot(row["elo"], place, marker="o", color="C0")
    axes.set_yticks(range(len(players)), [_plain(row["name"]) for row in players])
    axes.set(xlabel="Elo", xlim=(least, most), ylim=(len(players) - 0.5, -0.5))
    axes.grid(alpha=0.3)
    return figure


def draw_costs(players: Sequence[dict[str, Any]]) -> Figure:
    """Draws Elo over the cost of a move, for the players with both.

    Args:
      players: rows of a report, the best first.
    """
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    limits = _limits(players)
    for axes, (label, cost_of) in zip(figure.subplots(1, 2), _COSTS.items(), strict=True):
        for number, row in enumerate(players):
            cost = cost_of(row)
            if row["elo"] is not None and cost:
                axes.plot([cost, cost], _ends(row, *limits), color=f"C{number % 10}", lw=1.5)
                axes.plot(cost, row["elo"], color=f"C{number % 10}", marker="o")
        axes.set(xlabel=label, ylabel="Elo", ylim=limits, xscale="log")
        axes.grid(alpha=0.3, which="both")
    marks = [Line2D([], [], color=f"C{number % 10}", marker="o") for number in range(len(players))]
    names = [_plain(row["name"]) for row in players]
    figure.legend(marks, names, loc="outside right upper", fontsize=8)
    return figure


def _limits(players: Sequence[dict[str, Any]]) -> tuple[float, float]:
    known = [row[x] for row in players for x in ("elo", "low", "high") if row[x] is not None]
    return min(known, default=0.0) - _BEYOND, max(known, default=0.0) + _BEYOND


def _ends(row: dict[str, Any], least: float, most: float) -> tuple[float, float]:
    low, high = row["low"], row["high"]
    return (least if low is None else low), (most if high is None else high)


def _plain(name: str) -> str:
    """Escapes dollar signs, which matplotlib would read as formulas."""
    return name.replace("$", r"\$")


def to_png(figure: Figure) -> bytes:
    """Returns a figure as a PNG picture."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()
