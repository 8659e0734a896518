"""The report of the supervised stage: lines, table and picture."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from dualmctx.pipeline.report_style import draw_entry, finish_panel, make_table, save_figure
from dualmctx.runs.metrics_file import Row
from dualmctx.runs.numbers import show_share
from dualmctx.runs.plot_style import COLORS

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
    """Describes a row in at most 43 columns: its evals, or else the losses of its batches."""
    if "validation/policy_top1" in row:
        text = (
            f"top-1 {row['validation/policy_top1']:.1%}, "
            f"rollout {row['validation/rollout_top1']:.1%}"
        )
        keeping = row.get("exact/policy_keeping")
        return text if keeping is None else f"{text}, keeps {keeping:.1%}"
    return (
        f"loss {row['policy_loss']:.3f}, top-1 {row['policy_top1']:.1%}, "
        f"rollout {row['rollout_top1']:.1%}"
    )


def table(summary: dict[str, Any]) -> Table:
    """Lays out the last evals: a row per score, and a column per policy."""
    scores = make_table(summary["title"], ("", *_COLUMNS.values()))
    for scope, text in _SCOPES.items():
        number = summary.get(f"{scope}/positions")
        if not number:
            continue
        for score, name in _SCORES.items():
            cells = (summary[f"{scope}/{policy}_{score}"] for policy in _COLUMNS)
            shown = (f"{x:.3f}" if score == "loss" else show_share(x, 1) for x in cells)
            head = f"{text} ({number:,.0f}), " if score == "top1" else "    "
            scores.add_row(f"{head}{name}", *shown)
    keeping = [summary.get(f"exact/{x}_keeping") for x in ("policy", "rollout", "random")]
    if keeping[0] is not None:
        cells = (show_share(x, 1) for x in keeping)
        scores.add_row("most likely move keeps the value", *cells)
    return scores


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
    draw_entry(shares, rows, "exact/policy_keeping", label=keeping, color=COLORS[2], marker=".")
    shares.set(title="top-1 accuracy", ylabel="share", ylim=(-0.02, 1.02))
    for axes in (losses, shares):
        finish_panel(axes)
    save_figure(figure, title, file)


def _draw_score(
    axes: Axes, rows: list[Row], score: str, lines: tuple[tuple[str, str, str], ...]
) -> None:
    """Draws a score of both policies and of random moves."""
    for policy, color in zip(("policy", "rollout"), COLORS, strict=False):
        for name, text, dashes in lines:
            style = {"color": color, "linestyle": dashes, "marker": "" if dashes == ":" else "."}
            draw_entry(axes, rows, name.format(policy, score), label=f"{policy}, {text}", **style)
    name = f"validation/chance_{score}"
    draw_entry(axes, rows, name, label="random moves", color=COLORS[6], linestyle="-.")
