"""The report of the value stage: lines, summary, table and picture."""

from pathlib import Path
from typing import Any

from dualmctx.datasets.manifest import Manifest
from dualmctx.pipeline.value.positions import ALL, ONE, ValueData
from dualmctx.reports.numbers import show_decimal
from dualmctx.reports.plots import COLORS, Line, Panel, plot_curves
from dualmctx.reports.table import Table
from dualmctx.runs.metrics_file import Row

SAME_KIND = {ONE: "value/test_mse", ALL: "value/test_games_mse"}
"""The errors on held-out positions that are chosen as those of training."""
_NAMES = {"value": "value network", "constant": "mean value"}
# The keys of the errors, by the name of the prediction, with their headings.
_COLUMNS = {
    "{}/train_mse": "training",
    "{}/test_mse": "held-out",
    "{}/test_unseen_mse": "unseen",
    "{}/test_games_mse": "all positions",
    "exact/{}_error": "exact",
}


def describe(row: Row) -> str:
    """Describes a row in at most 43 columns: errors of evals, if there are any, or losses."""
    if "value/test_mse" in row:
        return f"train/test {row['value/train_mse']:.3f}/{row['value/test_mse']:.3f}"
    return f"loss {row['value_loss']:.3f}"


def count_games(manifest: Manifest) -> dict[str, int]:
    """Returns the number of games: all, used, over before their position, and stopped."""
    return {
        "games": manifest.counts["read"],
        "games_used": sum(split["games"] for split in manifest.splits.values()),
        "games_over_early": manifest.counts["without_positions"],
        "games_stopped": manifest.counts["without_result"],
    }


def summarize(rows: list[Row], manifest: Manifest, data: ValueData, which: str) -> dict[str, Any]:
    """Returns the entries of `summary.json`: the games, the positions, and the last errors.

    Args:
      rows: the rows of the stage, of which the last one has evals.
      manifest: that of the games.
      data: the positions.
      which: which positions the network learned, `ONE` or `ALL`.

    Returns:
      The entries. `value/gap` is the error on held-out positions that are chosen as those of
      training, less the error in training: the measure of overfitting.
    """
    last = rows[-1] if rows else {}
    errors = {name: x for name, x in last.items() if "/" in name}
    if errors:
        errors["value/gap"] = errors[SAME_KIND[which]] - errors["value/train_mse"]
    return {
        **count_games(manifest),
        "max_opening_plies": manifest.settings["max_opening_plies"],
        "positions_trained": len(data.train.value),
        "games_trained": data.train.num_games,
        "positions_tested": len(data.test[ONE].value),
        "share_unseen": float(data.is_unseen.mean()),
        "learned": which,
        **errors,
    }


def table(summary: dict[str, Any]) -> Table:
    """Returns the errors of the network and of a constant as a table of at most 80 columns."""
    columns = {key: text for key, text in _COLUMNS.items() if key.format("value") in summary}
    title = f"Mean squared error of the value, {summary['positions_trained']:,} positions"
    rows = [
        (text, *(show_decimal(summary[key.format(name)], 3) for key in columns))
        for name, text in _NAMES.items()
    ]
    return Table(title, ("", *columns.values()), rows, _caption(summary))


def _caption(summary: dict[str, Any]) -> str:
    """Explains the columns, and gives the overfitting."""
    text = (
        f"Held-out: one position of each of {summary['positions_tested']:,} games. Unseen: those "
        "that the network did not learn. All positions: of held-out games. Exact: under perfect "
        "play."
    )
    if "value/gap" in summary:
        text += f" Held-out less training, of the same kind: {summary['value/gap']:+.3f}."
    return text


def _panel(title: str, *lines: Line) -> Panel:
    return Panel(title, lines, "mean squared error", (0, None))


ERRORS = _panel(
    "results of games",
    Line("value/train_mse", "training", dashes="--"),
    Line("value/test_mse", "held-out, one per game"),
    Line("value/test_games_mse", "held-out, all positions", COLORS[1]),
    Line("constant/test_mse", "mean value, one per game", COLORS[-1], ":", ""),
)
"""The errors over the iterations."""
_EXACT = _panel(
    "values under perfect play",
    Line("exact/value_error", "value network"),
    Line("exact/constant_error", "mean value", COLORS[-1], ":", ""),
)


def plot(rows: list[Row], title: str, file: Path) -> None:
    """Plots the errors on training positions and on held-out games.

    Args:
      rows: the rows of `metrics.jsonl`. Games without exact values have one panel.
      title: the title.
      file: the file to write; its suffix sets the format.
    """
    is_exact = any("exact/value_error" in row for row in rows)
    plot_curves([ERRORS, _EXACT] if is_exact else [ERRORS], rows, title, file)
