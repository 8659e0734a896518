"""The supervised stage for people: a line per row, a picture and a table."""

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.table import Table

from dualmctx.pipeline.stage import Row
from dualmctx.runs.plot_style import COLORS, label

_SCOPES = {
    "validation": "validation",
    "validation_unseen": "  not in training",
    "test": "test",
    "test_unseen": "  not in training",
}
_SCORES = {"top1": "top-1", "top5": "top-5", "loss": "cross-entropy"}
_COLUMNS = {"policy": "policy", "rollout": "rollout policy", "chance": "random moves"}
# The lines of the picture: the suffix of an entry's name before the score, label and dashes.
_LINES = (("{}_{}", "training", ":"), ("validation/{}_{}", "validation", "-"))
_UNSEEN = ("validation_unseen/{}_{}", "not in training", "--")


def describe(row: Row) -> str:
    """Describes a row in at most 70 columns: its evals, or else the losses of its batches."""
    if "validation/policy_top1" in row:
        text = (
            f"validation top-1 {row['validation/policy_top1']:.1%} (rollout "
            f"{row['validation/rollout_top1']:.1%}, chance {row['validation/chance_top1']:.1%})"
        )
        keeping = row.get("exact/policy_keeping")
        return text if keeping is None else f"{text}, keeping {keeping:.1%}"
    return (
        f"loss {row['policy_loss']:.3f}, rollout {row['rollout_loss']:.3f}; "
        f"top-1 {row['policy_top1']:.1%}, rollout {row['rollout_top1']:.1%}"
    )


def table(summary: dict[str, Any]) -> Table:
    """Lays out the last evals: a row per score, and a column per policy."""
    found = Table(title=summary.get("title"), title_justify="left", title_style="bold")
    found.add_column("")
    for name in _COLUMNS.values():
        found.add_column(name, justify="right")
    for scope, text in _SCOPES.items():
        number = summary.get(f"{scope}/positions")
        if not number:
            continue
        for score, name in _SCORES.items():
            cells = (summary[f"{scope}/{policy}_{score}"] for policy in _COLUMNS)
            shown = (f"{x:.3f}" if score == "loss" else f"{x:.1%}" for x in cells)
            head = f"{text} ({number:,.0f}), " if score == "top1" else "    "
            found.add_row(f"{head}{name}", *shown)
    keeping = [summary.get(f"exact/{x}_keeping") for x in ("policy", "rollout", "random")]
    if keeping[0] is not None:
        cells = ("–" if x is None else f"{x:.1%}" for x in keeping)
        found.add_row("most likely move keeps the value", *cells)
    return found


def plot(rows: list[Row], title: str, file: Path) -> None:
    """Plots losses and accuracies over the iterations, and saves the picture.

    Colours tell the policies apart, and dashes the positions: dotted for training batches, solid
    for validation games, dashed for their positions that are not in training.

    Args:
      rows: the rows of `metrics.jsonl`.
      title: the title of the picture.
      file: the file to write; its suffix sets the format.
    """
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    losses, shares = figure.subplots(1, 2)
    _draw_score(losses, rows, "loss", _LINES)
    losses.set(title="cross-entropy of the moves played", ylabel="nats")
    _draw_score(shares, rows, "top1", (*_LINES, _UNSEEN))
    keeping = "most likely move keeps the exact value"
    _draw(shares, rows, "exact/policy_keeping", label=keeping, color=COLORS[2], marker=".")
    shares.set(title="top-1 accuracy", ylabel="share", ylim=(-0.02, 1.02))
    for axes in (losses, shares):
        axes.set(xlabel="iteration")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
        if axes.lines:
            # Below the axes, where it covers no line.
            axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    figure.suptitle(label(title, 90))
    figure.savefig(file, dpi=110)


def _draw_score(
    axes: Axes, rows: list[Row], score: str, lines: tuple[tuple[str, str, str], ...]
) -> None:
    """Draws a score of both policies and of random moves."""
    for policy, color in zip(("policy", "rollout"), COLORS, strict=False):
        for name, text, dashes in lines:
            style = {"color": color, "linestyle": dashes, "marker": "" if dashes == ":" else "."}
            _draw(axes, rows, name.format(policy, score), label=f"{policy}, {text}", **style)
    name = f"validation/chance_{score}"
    _draw(axes, rows, name, label="random moves", color=COLORS[6], linestyle="-.")


def _draw(axes: Axes, rows: list[Row], name: str, **style: Any) -> None:
    found = [(row["iteration"], row[name]) for row in rows if name in row]
    points = [(x, math.nan if y is None else y) for x, y in found]
    if points:
        axes.plot(*zip(*points, strict=True), **style)
