"""The report of the stage `reinforce`: lines, summary, table and picture."""

from pathlib import Path
from typing import Any

from dualmctx.reports.numbers import show_number, show_share
from dualmctx.reports.plots import COLORS, SHARES, Line, Panel, plot_curves
from dualmctx.reports.table import Table
from dualmctx.runs.metrics_file import Row

_POINTS = (
    Line(
        "reinforce/points",
        "points, both sample (95 %)",
        ends=("reinforce/points_low", "reinforce/points_high"),
    ),
    Line("reinforce/likeliest_points", "points, both play likeliest moves", COLORS[1], "--"),
)
_KEEPING = Line("exact/policy_keeping", "likeliest moves that keep the value", COLORS[2], ":")
POINTS = Panel("against the supervised policy", (*_POINTS, _KEEPING), "share", SHARES, 0.5)
"""The points against the supervised policy over the iterations."""
# Iterations over which the picture averages the losses and the entropy.
_SMOOTHING = 10
_MEANS = {"entropy": "entropy of the policy (nats)", "value_loss": "squared error of the baseline"}


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
    number = int(summary["reinforce/games"])
    shares = {
        "reinforce/win_share": "  of these games won",
        "reinforce/draw_share": "  of these games drawn",
        "reinforce/likeliest_points": "points if both play their likeliest moves",
        "exact/policy_keeping": "likeliest moves that keep the game's value",
    }
    first, last = (show_number(summary[f"{x}_entropy"]) for x in ("first", "last"))
    rows = [
        (f"points against the supervised policy ({number} games)", _show_interval(summary)),
        *((text, show_share(summary[x], 1)) for x, text in shares.items() if x in summary),
        ("entropy of the policy, first → last iterations (nats)", f"{first} → {last}"),
        ("squared error of the baseline", show_number(summary["value_loss"])),
        ("games of training", show_number(summary["num_games"])),
    ]
    return Table(summary["title"], ("policy by reinforcement", ""), rows)


def plot_reinforce(rows: list[Row], title: str, file: Path) -> None:
    """Plots the points, the entropy and the error of the baseline over the iterations.

    Args:
      rows: the rows of `metrics.jsonl`.
      title: the title of the picture.
      file: the file to write; its suffix sets the format.
    """
    # At the start, both policies are the same.
    names = [name for line in _POINTS for name in (line.entry, *line.ends)]
    start: Row = {"iteration": 0} | dict.fromkeys(names, 0.5)
    means = [
        {"iteration": row["iteration"]}
        | {f"mean_{x}": _mean(rows[max(0, i - _SMOOTHING) : i], x) for x in _MEANS}
        for i, row in enumerate(rows, 1)
    ]
    panels = [POINTS]
    for name, text in _MEANS.items():
        lines = (Line(name, marker="", is_faint=True), Line(f"mean_{name}", marker=""))
        panels.append(Panel(text, lines, limits=(0, None)))
    has_evals = any("reinforce/points" in row for row in rows)
    plot_curves(panels, [*([start] if has_evals else []), *rows, *means], title, file)


def _mean(rows: list[Row], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)


def _show_interval(row: Row) -> str:
    points, low, high = (100 * row[f"reinforce/points{x}"] for x in ("", "_low", "_high"))
    return f"{points:.1f}% ({low:.1f}–{high:.1f})"
