"""The plot of a training run's metrics."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dualmctx.policies.names import head_names
from dualmctx.runs.display import describe_positions
from dualmctx.runs.plot_style import COLORS, DASHES, label, set_log_axis

# The share, its label with a place for the positions, its colour, and its dashes: solid with
# search, dashed without.
_EVALS = (
    ("path/search_optimal", "with search, optimal path", COLORS[0], "-"),
    ("path/network_optimal", "network alone, optimal path", COLORS[0], "--"),
    ("exact/search_optimal", "with search, {}", COLORS[1], "-"),
    ("exact/network_optimal", "network alone, {}", COLORS[1], "--"),
    ("random/win_share", "won against uniform random", COLORS[2], ":"),
)
# The kinds of losses with their colours. The last head is solid.
_LOSSES = (("policy", COLORS[0]), ("value", COLORS[1]))


def plot_training(rows: list[dict[str, Any]], title: str, file: Path) -> None:
    """Plots the evals and the losses over the seconds of training, and saves the plot.

    Evals are shares from 0 to 1. Lines differ in colour and dashes.

    Args:
      rows: the rows of `metrics.jsonl`.
      title: the title of the plot.
      file: the file to write; its suffix sets the format.
    """
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    evals, losses = figure.subplots(1, 2)
    sample = next((row for row in rows if "exact_positions" in row), {})
    for name, text, color, dashes in _EVALS:
        style = {"color": color, "linestyle": dashes, "marker": "."}
        _draw(evals, rows, name, label=text.format(describe_positions(sample)), **style)
    evals.set(ylabel="share", ylim=(-0.02, 1.02), title="optimal moves, games won")
    for name, style in _loss_lines(rows[-1] if rows else {}):
        _draw(losses, rows, name, **style)
    drawn = [float(y) for line in losses.lines for y in line.get_ydata()]
    set_log_axis(losses.yaxis, [y for y in drawn if math.isfinite(y) and y > 0])
    losses.set(title="losses")
    for axes in (evals, losses):
        axes.set(xlabel="seconds of training")
        axes.grid(alpha=0.3)
        if axes.lines:
            # Below the axes, where it covers no line.
            axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    figure.suptitle(label(title, 90))
    figure.savefig(file, dpi=110)


def _draw(axes: Axes, rows: list[dict[str, Any]], name: str, **style: Any) -> None:
    found = [(row["seconds"], row[name]) for row in rows if name in row]
    points = [(x, math.nan if y is None else y) for x, y in found]
    if points:
        axes.plot(*zip(*points, strict=True), **style)


def _loss_lines(row: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the name of each loss in a row, and the style of its line."""
    for kind, color in _LOSSES:
        heads = sorted(
            int(name.rsplit("_", 1)[1]) for name in row if name.startswith(f"{kind}_loss_")
        )
        names = head_names(len(heads))
        for place, head in enumerate(reversed(heads)):
            style = {"color": color, "linestyle": DASHES[place % len(DASHES)]}
            name = f"{kind}_loss_{head}"
            yield name, {"label": f"{kind}, {names[-1 - place]} head", **style}
