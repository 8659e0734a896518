"""The picture of the whole pipeline: one panel for each stage."""

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dualmctx.datasets.manifest import read_manifest
from dualmctx.pipeline.report_style import draw_entry, save_figure
from dualmctx.pipeline.whole.report import GAMES, StageFolder, show_time
from dualmctx.runs.folder import RunFolder
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.runs.plot_style import COLORS, line_style

# The entries of the rows that the picture shows over the iterations, with their labels.
_LINES = {
    "supervised": {
        "validation/policy_top1": "policy network",
        "validation/rollout_top1": "rollout policy",
        "validation/chance_top1": "random moves",
    },
    "reinforce": {"reinforce/points": "points, 95 %"},
    "value": {
        "value/train_mse": "training",
        "value/test_mse": "held-out",
        "constant/test_mse": "mean value, held-out",
    },
}
_YLABELS = {
    "supervised": "share of moves predicted",
    "reinforce": "points against the supervised policy",
    "value": "mean squared error",
}
# The ends of the interval of the points.
_ENDS = ("reinforce/points_low", "reinforce/points_high")


def draw_stages(summary: dict[str, Any], stages: list[StageFolder], file: Path) -> None:
    """Draws one panel for each stage, and one with the shares of value-keeping moves.

    Args:
      summary: the summary, as returned by `summarize_stages`.
      stages: the stages in order, all finished.
      file: the file to write; its suffix sets the format.
    """
    figure = Figure(figsize=(14, 8), layout="constrained")
    panels = figure.subplots(2, 3).flat
    for axes, found, row in zip(panels, stages, summary["stages"], strict=False):
        if found.stage == GAMES:
            _draw_games(axes, found.folder)
        elif found.stage == "player":
            _draw_players(axes, row["measures"]["players"])
        else:
            _draw_lines(axes, found)
        axes.set_title(f"{found.stage}, {show_time(row['seconds'])}")
        axes.grid(alpha=0.3)
    _draw_keeping(panels[-1], summary["stages"])
    save_figure(figure, summary["title"], file)


def _draw_games(axes: Axes, folder: Path) -> None:
    """Draws the results of the games by side."""
    splits = read_manifest(folder).splits.values()
    names = {"first_wins": "first side wins", "draws": "draw", "second_wins": "second side wins"}
    counts = [sum(x["results"][name] for x in splits) for name in names]
    axes.barh([*names.values()], counts, color=COLORS[: len(names)])
    axes.invert_yaxis()
    axes.set(xlabel="games")


def _draw_lines(axes: Axes, found: StageFolder) -> None:
    """Draws the measures of a stage over its iterations, with the interval of the points."""
    rows = read_metrics(RunFolder(found.folder).metrics)
    for number, (name, text) in enumerate(_LINES[found.stage].items()):
        draw_entry(axes, rows, name, label=text, marker=".", **line_style(number))
    ends = [(x["iteration"], *map(x.get, _ENDS)) for x in rows if _ENDS[0] in x]
    if ends:
        iterations, low, high = zip(*ends, strict=True)
        axes.fill_between(iterations, low, high, alpha=0.2, color=COLORS[0], linewidth=0)
        axes.axhline(0.5, color="black", linewidth=1, linestyle=":")
    axes.set(xlabel="iterations", ylabel=_YLABELS[found.stage])
    if found.stage == "value":
        axes.set_ylim(bottom=0)
    else:
        axes.set_ylim(-0.02, 1.02)
    if axes.lines:
        axes.legend(fontsize=8)


def _draw_players(axes: Axes, players: list[dict[str, Any]]) -> None:
    """Draws the Elo of the players with intervals; unbounded ends leave the panel."""
    known = [row[x] for row in players for x in ("elo", "low", "high") if row[x] is not None]
    least, most = min(known, default=0.0) - 50, max(known, default=0.0) + 50
    for place, row in enumerate(players):
        color = COLORS[place % len(COLORS)]
        low, high = row["low"], row["high"]
        ends = [least if low is None else low, most if high is None else high]
        axes.plot(ends, [place, place], color=color)
        axes.plot(math.nan if row["elo"] is None else row["elo"], place, "o", color=color)
    axes.set_yticks(range(len(players)), [row["name"] for row in players])
    axes.set(xlabel="Elo, 95 %", xlim=(least, most), ylim=(len(players) - 0.5, -0.5))


def _draw_keeping(axes: Axes, stages: list[dict[str, Any]]) -> None:
    """Draws the share of value-keeping moves after each stage."""
    bars = [
        (f"{row['stage']}: {name.replace('_', ' ')}", share, COLORS[number % len(COLORS)])
        for number, row in enumerate(stages)
        for name, share in row["keeping"].items()
        if name != "random" or row["stage"] == "supervised"
    ]
    if not bars:
        axes.axis("off")
        return
    names, shares, colors = zip(*bars, strict=True)
    axes.barh(names, shares, color=colors)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), title="moves that keep the game's value", xlabel="share")
    axes.grid(alpha=0.3, axis="x")
