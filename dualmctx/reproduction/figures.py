"""The paper's figures 2 to 4: Elo and α-rank over the steps of training."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dualmctx.reproduction.convergence import MASS


def draw_curves(summary: dict[str, Any], title: str, file: Path) -> None:
    """Draws a comparison and saves the picture.

    Thin lines are seeds, thick ones their mean; the band is the mean interval of 95 %.

    Args:
      summary: as `summarize` returns it.
      title: of the picture.
      file: where to save it; the suffix decides the format.
    """
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    elo, mass = figure.subplots(1, 2)
    for i, (name, found) in enumerate(summary["algorithms"].items()):
        curves = list(found["curves"].values())
        steps = curves[0]["found"]["steps"]
        low, high = (_mean(curves, part) for part in ("low", "high"))
        elo.fill_between(steps, low, high, color=f"C{i}", alpha=0.12, linewidth=0)
        for axes, part in ((elo, "elo"), (mass, "mass")):
            _draw(axes, steps, curves, part, f"C{i}", name)
    elo.set(xlabel="step", ylabel="Elo", title="Elo, the mean of all checkpoints is 0")
    mass.axhline(MASS, color="0.5", linewidth=0.8, linestyle="--")
    mass.set(xlabel="step", title="α-rank among all checkpoints so far", ylim=(-0.02, 1.02))
    for axes in (elo, mass):
        axes.grid(alpha=0.3)
        axes.locator_params("x", integer=True)
    elo.legend(fontsize=8)
    figure.suptitle(title)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def _draw(axes: Axes, steps: Any, curves: list[Any], part: str, color: str, name: str) -> None:
    for curve in curves[: len(curves) if len(curves) > 1 else 0]:
        axes.plot(steps, np.array(curve[part], float), color=color, alpha=0.35, linewidth=0.8)
    axes.plot(steps, _mean(curves, part), color=color, marker=".", label=name)


def _mean(curves: list[Any], part: str) -> np.ndarray:
    """Returns the mean over seeds, of those that have a number."""
    table = np.array([curve[part] for curve in curves], float)
    number = np.sum(np.isfinite(table), axis=0)
    total = np.nansum(table, axis=0)
    return np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
