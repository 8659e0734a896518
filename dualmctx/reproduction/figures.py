"""Figures 2 to 4 of the paper: Elo and α-rank over training steps; and the quality of play."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dualmctx.reproduction.convergence import MASS
from dualmctx.runs.plot_style import line_style

# Margin of the axis beyond the known values, in Elo.
_MARGIN = 50.0


def save_curves(summary: dict[str, Any], title: str, file: Path) -> None:
    """Draws a comparison and saves the picture; the suffix of the file sets the format."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draw_curves(summary, title).savefig(file, dpi=90)


def draw_curves(summary: dict[str, Any], title: str) -> Figure:
    """Draws a comparison: over steps in the first row, over seconds of training in the second.

    Each thin line is a seed. Thick lines are means over seeds, with a gap where the games of a seed
    do not bound its Elo. The band is the mean of the 95 % intervals; it extends to the edge where
    an interval is unbounded. Vertical lines are the steps at which each algorithm converged
    according to the paper. The last plot of a row shows the share of optimal moves if it is known,
    otherwise the points against the reference. Lines of algorithms differ in colour and dashes.

    Args:
      summary: as `summarize` returns it.
      title: title of the picture.
    """
    figure = Figure(figsize=(12.5, 7.4), layout="constrained")
    limits = _elo_limits(summary)
    for row, is_time in zip(figure.subplots(2, 3), (False, True), strict=True):
        _draw_row(row, summary, limits, is_time)
        for axes in row:
            axes.set(xlabel="seconds of training" if is_time else "step")
            axes.grid(alpha=0.3)
            axes.locator_params("x", integer=not is_time)
        if not is_time:
            row[0].legend(fontsize=8)
    figure.suptitle(title)
    return figure


def _draw_row(
    row: Sequence[Axes], summary: dict[str, Any], limits: tuple[float, float], is_time: bool
) -> None:
    elo, mass, play = row
    reference = next(iter(summary["algorithms"]))
    for number, (name, entry) in enumerate(summary["algorithms"].items()):
        curves, style = list(entry["curves"].values()), line_style(number)
        steps = [curve["found"]["steps"] for curve in curves]
        x = _at(curves, steps, is_time)
        low, high = (
            mean_of([curve[part] for curve in curves], end)
            for part, end in zip(("low", "high"), limits, strict=True)
        )
        elo.fill_between(mean_of(x), low, high, color=style["color"], alpha=0.12, linewidth=0)
        _draw(elo, x, [curve["elo"] for curve in curves], style, name)
        _draw(mass, x, [curve["mass"] for curve in curves], style, name)
        if entry["paper"] is not None and not is_time:
            mass.axvline(entry["paper"]["steps"], linewidth=0.9, **style)
        optimal = [curve["found"]["optimal"] for curve in curves]
        if all(optimal):
            x = _at(curves, [range(1, len(values) + 1) for values in optimal], is_time)
            _draw(play, x, optimal, style, name)
            play.set(title="optimal moves where optimal play can lead")
        else:
            _draw(play, x, [curve["found"]["level"] for curve in curves], style, name)
            play.set(title=f"points against {reference}'s last checkpoint")
    elo.set(ylabel="Elo", ylim=limits, title=f"Elo, {reference}'s last checkpoint is 0")
    mass.axhline(MASS, color="0.5", linewidth=0.8, linestyle=(0, (1, 3)))
    mass.set(title="α-rank among all checkpoints so far", ylim=(-0.02, 1.02))
    play.set(ylim=(-0.02, 1.02))


def _at(
    curves: Sequence[dict[str, Any]], steps: Sequence[Sequence[int]], is_time: bool
) -> list[list[float]]:
    """Returns the steps of each seed, or the seconds of training up to the end of each step."""
    if not is_time:
        return [list(map(float, own)) for own in steps]
    trained = [[0.0, *curve["found"]["trained"]] for curve in curves]
    return [[times[step] for step in own] for times, own in zip(trained, steps, strict=True)]


def _draw(axes: Axes, x: list[Any], seeds: list[Any], style: dict[str, Any], name: str) -> None:
    for own, numbers in zip(x, seeds, strict=True) if len(seeds) > 1 else ():
        axes.plot(own, np.array(numbers, float), alpha=0.35, linewidth=0.8, **style)
    axes.plot(mean_of(x), mean_of(seeds), marker=".", label=name, **style)


def mean_of(seeds: list[Any], missing: float = np.nan) -> np.ndarray:
    """Returns the mean over seeds; `missing` where a seed has no number."""
    mean = np.mean(np.array(seeds, float), axis=0)
    return np.where(np.isnan(mean), missing, mean)


def _elo_limits(summary: dict[str, Any]) -> tuple[float, float]:
    """Returns the range of the axis of Elo: all known values and a margin."""
    known = [
        x
        for entry in summary["algorithms"].values()
        for curve in entry["curves"].values()
        for part in ("elo", "low", "high")
        for x in curve[part]
        if x is not None
    ]
    return min(known, default=0.0) - _MARGIN, max(known, default=0.0) + _MARGIN
