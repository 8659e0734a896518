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
from dualmctx.runs.numbers import NONE
from dualmctx.runs.plot_style import COLORS

CONSTANT = "constant"
"""The name of the prediction of the mean training value."""
SAME_KIND = {ONE: "test_mse", ALL: "test_games_mse"}
"""The errors on held-out positions that are chosen as those of training."""
_NAMES = {ONE: "one per game", ALL: "all, fewer games", CONSTANT: "mean value"}
_COLUMNS = {
    "train_mse": "training",
    "test_mse": "held-out",
    "test_unseen_mse": "unseen",
    "test_games_mse": "all positions",
    "exact_mse": "exact",
}


def describe(row: Row) -> str:
    """Describes a row in at most 43 columns: errors of evals, if there are any, or losses."""
    errors, losses = [], []
    for name in (ONE, ALL):
        if f"{name}/test_mse" in row:
            errors.append(f"{name} {row[f'{name}/train_mse']:.3f}/{row[f'{name}/test_mse']:.3f}")
        elif f"{name}_loss" in row:
            losses.append(f"{name} {row[f'{name}_loss']:.3f}")
    return f"train/test {', '.join(errors)}" if errors else f"loss {', '.join(losses)}"


def count_games(manifest: Manifest) -> dict[str, int]:
    """Returns the number of games: all, used, over before their position, and stopped."""
    return {
        "games": manifest.counts["read"],
        "games_used": sum(split["games"] for split in manifest.splits.values()),
        "games_over_early": manifest.counts["without_positions"],
        "games_stopped": manifest.counts["without_result"],
    }


def summarize(
    rows: list[Row], manifest: Manifest, data: ValueData, names: tuple[str, ...]
) -> dict[str, Any]:
    """Returns the entries of `summary.json`: the games, the positions, and the last errors.

    Args:
      rows: the rows of the stage, of which the last one has evals.
      manifest: that of the games.
      data: the positions.
      names: which positions the stage's network learned, and those of the compared network.

    Returns:
      The entries. `NAME/gap` is the error on held-out positions that are chosen as those of
      training, less the error in training: the measure of overfitting.
    """
    last = rows[-1] if rows else {}
    return {
        **count_games(manifest),
        "max_opening_plies": manifest.settings["max_opening_plies"],
        "positions_trained": len(data.train[ONE].value),
        "positions_tested": len(data.test[ONE].value),
        "share_unseen": float(data.is_unseen.mean()),
        "learned": names[0],
        **{f"{name}/games": data.train[name].num_games for name in names},
        **{name: x for name, x in last.items() if "/" in name},
        **{
            f"{name}/gap": last[f"{name}/{SAME_KIND[name]}"] - last[f"{name}/train_mse"]
            for name in names
            if f"{name}/train_mse" in last
        },
    }


def table(summary: dict[str, Any]) -> Table:
    """Returns the errors of the networks as a table of at most 80 columns."""
    names = [name for name in _NAMES if f"{name}/test_mse" in summary]
    columns = [x for x in _COLUMNS if any(f"{name}/{x}" in summary for name in names)]
    title = f"Mean squared error of the value, {summary['positions_trained']:,} positions"
    headings = ("learned from", *(_COLUMNS[column] for column in columns))
    errors = make_table(title, headings, _caption(summary))
    for name in names:
        cells = [summary.get(_key(name, column)) for column in columns]
        errors.add_row(_NAMES[name], *(NONE if x is None else f"{x:.3f}" for x in cells))
    return errors


def _key(name: str, entry: str) -> str:
    """Returns the key of an error of a network, or of the constant, in rows and summary."""
    key = f"{name}/{entry}"
    return "exact/constant_error" if key == f"{CONSTANT}/exact_mse" else key


def _caption(summary: dict[str, Any]) -> str:
    """Explains the columns, and gives the overfitting and the interval of the difference."""
    text = (
        f"Held-out: one position of each of {summary['positions_tested']:,} games. Unseen: those "
        "that no network learned. All positions: of held-out games. Exact: under perfect play."
    )
    gaps = [
        f"{name} {summary[f'{name}/gap']:+.3f}" for name in (ONE, ALL) if f"{name}/gap" in summary
    ]
    text += f" Held-out less training, of the same kind: {', '.join(gaps)}."
    if "difference/test_mse" in summary:
        difference, margin = (summary[f"difference/test_{x}"] for x in ("mse", "margin"))
        text += f" Held-out, all less one: {difference:+.3f} ± {margin:.3f} (95 %)."
    return text


def plot(rows: list[Row], title: str, file: Path) -> None:
    """Plots the errors on training positions and on held-out games, and saves the picture.

    Args:
      rows: the rows of `metrics.jsonl`.
      title: the title.
      file: the file to write; its suffix sets the format.
    """
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    evals = [row for row in rows if f"{CONSTANT}/test_mse" in row]
    kinds, common, exact = figure.subplots(1, 3)
    for number, name in enumerate((ONE, ALL)):
        style = {"color": COLORS[number], "marker": "."}
        _draw(kinds, evals, name, "train_mse", f"{name}, training", linestyle="--", **style)
        _draw(kinds, evals, name, SAME_KIND[name], f"{name}, held-out", **style)
        _draw(common, evals, name, "test_mse", name, **style)
        _draw(exact, evals, name, "exact_mse", name, **style)
    for axes, entry, heading in (
        (kinds, None, "positions chosen as in training"),
        (common, "test_mse", "one position per held-out game"),
        (exact, "exact_mse", "values under perfect play"),
    ):
        if entry is not None:
            style = {"color": COLORS[-1], "linestyle": ":"}
            _draw(axes, evals, CONSTANT, entry, "mean value", **style)
        axes.set(ylabel="mean squared error", title=heading)
        axes.set_visible(bool(axes.lines))
        if axes.lines:
            axes.set_ylim(bottom=0)
        finish_panel(axes)
    save_figure(figure, title, file)


def _draw(axes: Axes, rows: list[Row], name: str, entry: str, text: str, **style: Any) -> None:
    """Draws one error of a network, or of the constant, over the iterations."""
    draw_entry(axes, rows, _key(name, entry), label=text, **style)
