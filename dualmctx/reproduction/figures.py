"""Figures 2 to 4 of the paper: Elo and α-rank over training steps; and the quality of play."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dualmctx.reproduction.convergence import MASS

# Margin of the axis beyond the known values, in Elo.
_MARGIN = 50.0


def save_curves(summary: dict[str, Any], title: str, file: Path) -> None:
    """Draws a comparison and saves the picture; the suffix of the file sets the format."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draw_curves(summary, title).savefig(file, dpi=110)


def draw_curves(summary: dict[str, Any], title: str) -> Figure:
    """Draws a comparison.

    Each thin line is a seed. Thick lines are means over seeds, with a gap where the games of a seed
    do not bound its Elo. The band is the mean of the 95 % intervals; it extends to the edge where
    an interval is unbounded. Dotted lines are the steps at which each algorithm converged according
    to the paper. The last plot shows the share of optimal moves if it is known, otherwise the
    points against the reference.

    Args:
      summary: as `summarize` returns it.
      title: title of the picture.
    """
    figure = Figure(figsize=(12.5, 3.8), layout="constrained")
    elo, mass, play = figure.subplots(1, 3)
    reference, limits = next(iter(summary["algorithms"])), _elo_limits(summary)
    for i, (name, entry) in enumerate(summary["algorithms"].items()):
        curves, color = list(entry["curves"].values()), f"C{i}"
        steps = curves[0]["found"]["steps"]
        low, high = (
            mean_of([curve[part] for curve in curves], end)
            for part, end in zip(("low", "high"), limits, strict=True)
        )
        elo.fill_between(steps, low, high, color=color, alpha=0.12, linewidth=0)
        _draw(elo, steps, [curve["elo"] for curve in curves], color, name)
        _draw(mass, steps, [curve["mass"] for curve in curves], color, name)
        if entry["paper"] is not None:
            mass.axvline(entry["paper"]["steps"], color=color, linewidth=0.9, linestyle=":")
        optimal = [curve["found"]["optimal"] for curve in curves]
        if all(optimal):
            _draw(play, range(1, len(optimal[0]) + 1), optimal, color, name)
            play.set(title="optimal moves where optimal play can lead")
        else:
            _draw(play, steps, [curve["found"]["level"] for curve in curves], color, name)
            play.set(title=f"points against {reference}'s last checkpoint")
    elo.set(ylabel="Elo", ylim=limits, title=f"Elo, {reference}'s last checkpoint is 0")
    mass.axhline(MASS, color="0.5", linewidth=0.8, linestyle="--")
    mass.set(title="α-rank among all checkpoints so far", ylim=(-0.02, 1.02))
    play.set(ylim=(-0.02, 1.02))
    for axes in (elo, mass, play):
        axes.set(xlabel="step")
        axes.grid(alpha=0.3)
        axes.locator_params("x", integer=True)
    elo.legend(fontsize=8)
    figure.suptitle(title)
    return figure


def _draw(axes: Axes, steps: Any, seeds: list[Any], color: str, name: str) -> None:
    for numbers in seeds if len(seeds) > 1 else ():
        axes.plot(steps, np.array(numbers, float), color=color, alpha=0.35, linewidth=0.8)
    axes.plot(steps, mean_of(seeds), color=color, marker=".", label=name)


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
