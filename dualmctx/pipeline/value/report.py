"""The report of the value stage: lines, summary, table and picture."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from dualmctx.datasets.manifest import Manifest
from dualmctx.pipeline.report_style import draw_entry, finish_panel, make_table, save_figure
from dualmctx.pipeline.value.positions import ALL, ONE, ValueData
from dualmctx.runs.metrics_file import Row
from dualmctx.runs.plot_style import COLORS

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
    errors = make_table(title, ("", *columns.values()), _caption(summary))
    for name, text in _NAMES.items():
        errors.add_row(text, *(f"{summary[key.format(name)]:.3f}" for key in columns))
    return errors


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


def plot(rows: list[Row], title: str, file: Path) -> None:
    """Plots the errors on training positions and on held-out games, and saves the picture.

    Args:
      rows: the rows of `metrics.jsonl`.
      title: the title.
      file: the file to write; its suffix sets the format.
    """
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    results, exact = figure.subplots(1, 2)
    evals = [row for row in rows if "value/test_mse" in row]
    _draw(results, evals, "value/train_mse", "training", linestyle="--")
    _draw(results, evals, "value/test_mse", "held-out, one per game")
    _draw(results, evals, "value/test_games_mse", "held-out, all positions", color=COLORS[1])
    _draw(results, evals, "constant/test_mse", "mean value, one per game", **_CONSTANT)
    _draw(exact, evals, "exact/value_error", "value network")
    _draw(exact, evals, "exact/constant_error", "mean value", **_CONSTANT)
    for axes, heading in ((results, "results of games"), (exact, "values under perfect play")):
        axes.set(ylabel="mean squared error", title=heading)
        axes.set_visible(bool(axes.lines))
        if axes.lines:
            axes.set_ylim(bottom=0)
        finish_panel(axes)
    save_figure(figure, title, file)


_CONSTANT = {"color": COLORS[-1], "linestyle": ":", "marker": ""}


def _draw(axes: Axes, rows: list[Row], name: str, text: str, **style: Any) -> None:
    draw_entry(axes, rows, name, label=text, **{"color": COLORS[0], "marker": "."} | style)
