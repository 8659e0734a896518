"""The report of the stage `reinforce`: lines, summary, table and picture."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from dualmctx.pipeline.report_style import draw_entry, finish_panel, make_table, save_figure
from dualmctx.runs.metrics_file import Row
from dualmctx.runs.numbers import show_number, show_share
from dualmctx.runs.plot_style import COLORS

# Iterations over which the picture averages the losses and the entropy.
_SMOOTHING = 10


def describe_row(row: Row) -> str:
    """Describes a row in at most 43 columns: the points of its evals, if there are any."""
    pool = f"pool {row['pool_points']:.0%}"
    if "reinforce/points" in row:
        return f"{pool}, supervised {_show_interval(row)}"
    return f"{pool}, entropy {row['entropy']:.2f}, value {row['value_loss']:.3f}"


def summarize_rows(rows: list[Row], num_games: int) -> dict[str, Any]:
    """Returns the entries of the summary: the last evals, and the course of the entropy."""
    last = rows[-1]
    evals = {name: x for name, x in last.items() if "/" in name}
    return evals | {
        "num_games": num_games * len(rows),
        "first_entropy": _mean(rows[:_SMOOTHING], "entropy"),
        "last_entropy": _mean(rows[-_SMOOTHING:], "entropy"),
        "value_loss": _mean(rows[-_SMOOTHING:], "value_loss"),
        "pool_policies": last["pool_policies"],
    }


def summary_table(summary: dict[str, Any]) -> Table:
    """Lays out the summary as a table."""
    table = make_table(summary["title"], ("policy by reinforcement", ""))
    number = int(summary["reinforce/games"])
    table.add_row(f"points against the supervised policy ({number} games)", _show_interval(summary))
    for name, text in (("win_share", "won"), ("draw_share", "drawn")):
        table.add_row(f"  of these games {text}", show_share(summary[f"reinforce/{name}"], 1))
    table.add_row(
        "points if both play their likeliest moves",
        show_share(summary["reinforce/likeliest_points"], 1),
    )
    if "exact/policy_keeping" in summary:
        table.add_row(
            "likeliest moves that keep the game's value",
            show_share(summary["exact/policy_keeping"], 1),
        )
    first, last = (show_number(summary[f"{x}_entropy"]) for x in ("first", "last"))
    table.add_row("entropy of the policy, first → last iterations (nats)", f"{first} → {last}")
    table.add_row("squared error of the baseline", show_number(summary["value_loss"]))
    table.add_row("games of training", show_number(summary["num_games"]))
    return table


def plot_reinforce(rows: list[Row], title: str, file: Path) -> None:
    """Plots the points, the entropy and the error of the baseline over the iterations.

    Args:
      rows: the rows of `metrics.jsonl`.
      title: the title of the picture.
      file: the file to write; its suffix sets the format.
    """
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    points, entropy, loss = figure.subplots(1, 3, width_ratios=(3, 2, 2))
    _draw_points(points, [row for row in rows if "reinforce/points" in row])
    for axes, name, text in (
        (entropy, "entropy", "entropy of the policy (nats)"),
        (loss, "value_loss", "squared error of the baseline"),
    ):
        _draw_mean(axes, rows, name)
        axes.set(title=text, ylim=(0, None))
    for axes in (points, entropy, loss):
        finish_panel(axes, 1)
    save_figure(figure, title, file)


def _draw_points(axes: Axes, rows: list[Row]) -> None:
    """Draws the points against the supervised policy, which are one half at the start."""
    axes.axhline(0.5, color="black", linewidth=0.8)
    axes.set(ylim=(-0.02, 1.02), ylabel="share", title="against the supervised policy")
    if not rows:
        return
    x = [0, *(row["iteration"] for row in rows)]
    low, high = (
        [0.5, *(row[f"reinforce/points_{end}"] for row in rows)] for end in ("low", "high")
    )
    axes.fill_between(x, low, high, color=COLORS[0], alpha=0.2, linewidth=0)
    for name, text, color, dashes in (
        ("reinforce/points", "points, both sample (95 %)", COLORS[0], "-"),
        ("reinforce/likeliest_points", "points, both play likeliest moves", COLORS[1], "--"),
    ):
        y = [0.5, *(row[name] for row in rows)]
        axes.plot(x, y, color=color, linestyle=dashes, marker=".", label=text)
    style = {"color": COLORS[2], "linestyle": ":", "marker": "."}
    text = "likeliest moves that keep the value"
    draw_entry(axes, rows, "exact/policy_keeping", label=text, **style)


def _draw_mean(axes: Axes, rows: list[Row], name: str) -> None:
    """Draws each iteration, and the mean over the last iterations."""
    x = [row["iteration"] for row in rows]
    draw_entry(axes, rows, name, color=COLORS[0], alpha=0.3, linewidth=0.8)
    means = [_mean(rows[max(0, i - _SMOOTHING) : i], name) for i in range(1, len(rows) + 1)]
    axes.plot(x, means, color=COLORS[0])


def _mean(rows: list[Row], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)


def _show_interval(row: Row) -> str:
    points, low, high = (100 * row[f"reinforce/points{x}"] for x in ("", "_low", "_high"))
    return f"{points:.1f}% ({low:.1f}–{high:.1f})"
