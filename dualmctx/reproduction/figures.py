"""The paper's figures 2 to 4, Elo and α-rank over the steps of training, and how well it plays."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dualmctx.reproduction.convergence import MASS


def draw_curves(summary: dict[str, Any], title: str, file: Path) -> None:
    """Draws a comparison and saves the picture.

    Thin lines are seeds, thick ones their mean; the band is the mean interval of 95 %. Dotted lines
    are the steps at which the paper says that each algorithm had converged. The last part is the
    share of optimal moves where that is known, else the points against the reference.

    Args:
      summary: as `summarize` returns it.
      title: of the picture.
      file: where to save it; the suffix decides the format.
    """
    figure = Figure(figsize=(12.5, 3.8), layout="constrained")
    elo, mass, play = figure.subplots(1, 3)
    reference = next(iter(summary["algorithms"]))
    for i, (name, found) in enumerate(summary["algorithms"].items()):
        curves, color = list(found["curves"].values()), f"C{i}"
        steps = curves[0]["found"]["steps"]
        low, high = (_mean([curve[part] for curve in curves]) for part in ("low", "high"))
        elo.fill_between(steps, low, high, color=color, alpha=0.12, linewidth=0)
        _draw(elo, steps, [curve["elo"] for curve in curves], color, name)
        _draw(mass, steps, [curve["mass"] for curve in curves], color, name)
        if found["paper"] is not None:
            mass.axvline(found["paper"]["steps"], color=color, linewidth=0.9, linestyle=":")
        optimal = [curve["found"]["optimal"] for curve in curves]
        if all(optimal):
            _draw(play, range(1, len(optimal[0]) + 1), optimal, color, name)
            play.set(title="optimal moves where optimal play can lead")
        else:
            _draw(play, steps, [curve["found"]["level"] for curve in curves], color, name)
            play.set(title=f"points against {reference}'s last checkpoint")
    elo.set(ylabel="Elo", title=f"Elo, {reference}'s last checkpoint is 0")
    mass.axhline(MASS, color="0.5", linewidth=0.8, linestyle="--")
    mass.set(title="α-rank among all checkpoints so far", ylim=(-0.02, 1.02))
    play.set(ylim=(-0.02, 1.02))
    for axes in (elo, mass, play):
        axes.set(xlabel="step")
        axes.grid(alpha=0.3)
        axes.locator_params("x", integer=True)
    elo.legend(fontsize=8)
    figure.suptitle(title)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def _draw(axes: Axes, steps: Any, seeds: list[Any], color: str, name: str) -> None:
    for numbers in seeds if len(seeds) > 1 else ():
        axes.plot(steps, np.array(numbers, float), color=color, alpha=0.35, linewidth=0.8)
    axes.plot(steps, _mean(seeds), color=color, marker=".", label=name)


def _mean(seeds: list[Any]) -> np.ndarray:
    """Returns the mean over seeds, of those that have a number."""
    table = np.array(seeds, float)
    number = np.sum(np.isfinite(table), axis=0)
    total = np.nansum(table, axis=0)
    return np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
