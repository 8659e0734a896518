"""The plot of a training run's metrics."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

_EVALS = {
    "path/network_optimal": "network, optimal path",
    "path/search_optimal": "with search, optimal path",
    "exact/network_optimal": "network, all positions",
    "exact/search_optimal": "with search, all positions",
    "random/win_share": "games won against uniform random",
}


def plot_training(rows: list[dict[str, Any]], title: str, file: Path) -> None:
    """Plots the evals and the losses over the seconds of training, and saves the plot.

    Args:
      rows: the rows of `metrics.jsonl`.
      title: the title of the plot.
      file: the file to write; its suffix sets the format.
    """
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    evals, losses = figure.subplots(1, 2)
    for name, label in _EVALS.items():
        points = [(row["seconds"], 100 * row[name]) for row in rows if name in row]
        if points:
            evals.plot(*zip(*points, strict=True), label=label, marker=".")
    evals.set(xlabel="seconds of training", ylabel="%", title="optimal moves, games won")
    evals.set_ylim(None, 101)
    for kind in ("policy", "value"):
        heads = sorted(name for name in (rows[-1] if rows else {}) if name.startswith(f"{kind}_l"))
        for name in heads:
            label = f"{kind}, head {int(name.rsplit('_', 1)[1]) + 1}"
            points = [(row["seconds"], row[name]) for row in rows if name in row]
            losses.plot(*zip(*points, strict=True), label=label)
    losses.set(xlabel="seconds of training", title="losses", yscale="log")
    for axes in (evals, losses):
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize=8)
    figure.suptitle(title)
    figure.savefig(file, dpi=110)
