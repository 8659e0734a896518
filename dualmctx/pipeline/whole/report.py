"""The report of the whole pipeline: summary, table and picture."""

import math
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dualmctx.datasets.manifest import read_manifest
from dualmctx.pipeline.player.match import entry_of
from dualmctx.pipeline.reinforce import report as reinforce
from dualmctx.pipeline.supervised import report as supervised
from dualmctx.pipeline.value import report as value
from dualmctx.pipeline.whole.first_games import read_seconds
from dualmctx.reports.numbers import NONE, show_decimal, show_elo, show_interval, show_share
from dualmctx.reports.plots import (
    COLORS,
    draw_bars,
    draw_intervals,
    draw_panel,
    save_figure,
)
from dualmctx.reports.table import Table, entry
from dualmctx.runs.folder import RunFolder, read_summary
from dualmctx.runs.metrics_file import read_metrics

GAMES = "games"
"""The name of the first stage, which makes the data set."""
# The entries of a stage's summary that are its measures.
_MEASURES = {
    "supervised": ("test/policy_top1", "test/rollout_top1", "test/chance_top1"),
    "reinforce": ("reinforce/points", "reinforce/points_low", "reinforce/points_high"),
    "value": ("value/train_mse", "value/test_mse", "constant/test_mse"),
    "player": (),
}
# The panels of the picture: the first ones of the stages' own pictures.
_PANELS = {
    "supervised": supervised.ACCURACY,
    "reinforce": reinforce.POINTS,
    "value": value.ERRORS,
}

SECONDS = "wall_seconds"
"""The entry of a stage's summary with its seconds, with evals and compilation."""


class StageFolder(NamedTuple):
    """A finished stage: its name and its folder."""

    stage: str
    folder: Path


def is_finished(folder: Path) -> bool:
    """Returns whether a stage has written its summary; a damaged one is written again."""
    seconds = (read_summary(folder) or {}).get(SECONDS)
    return isinstance(seconds, int | float) and math.isfinite(seconds)


def summarize_stages(title: str, stages: list[StageFolder]) -> dict[str, Any]:
    """Returns the content of `summary.json` of the whole pipeline.

    Args:
      title: the title.
      stages: the stages in order, all finished.

    Returns:
      `title`, `seconds` of all stages, and `stages`: for each its name, its folder, its `seconds`
      with evals and compilation, its `measures`, and `keeping`, the shares of moves that keep the
      exact value of the game.
    """
    rows = [_games(x) if x.stage == GAMES else _stage(x) for x in stages]
    return {"title": title, "seconds": sum(row["seconds"] for row in rows), "stages": rows}


def _games(found: StageFolder) -> dict[str, Any]:
    manifest = read_manifest(found.folder)
    return {
        "stage": found.stage,
        "folder": str(found.folder),
        "seconds": read_seconds(found.folder),
        "measures": {
            "games": sum(x["games"] for x in manifest.splits.values()),
            "positions": manifest.num_positions,
        },
        "keeping": {},
    }


def _stage(found: StageFolder) -> dict[str, Any]:
    summary = read_summary(found.folder) or {}
    measures = {x: summary[x] for x in _MEASURES[found.stage] if x in summary}
    if found.stage == "player":
        names = ("name", "elo", "low", "high", "score", "blocks", "seconds")
        measures["players"] = [{x: row[x] for x in names} for row in summary["players"]]
    keeping = {
        name.removeprefix("exact/").removesuffix("_keeping"): x
        for name, x in summary.items()
        if name.startswith("exact/") and name.endswith("_keeping")
    }
    seconds = summary[SECONDS]
    row = {"stage": found.stage, "folder": str(found.folder), "seconds": seconds}
    return row | {"measures": measures, "keeping": keeping}


def stages_table(summary: dict[str, Any]) -> Table:
    """Lays out the summary as a table of at most 80 columns."""
    columns = {
        "stage": entry("stage", str),
        "time": entry("seconds", _show_time),
        "measure": lambda row: _describe(row["stage"], row["measures"]),
        "keeps value": _kept,
    }
    table = Table.of(summary["title"], columns, summary["stages"], left=("measure",))
    table.rows.append(("all", _show_time(summary["seconds"]), "", ""))
    return table


def _kept(row: dict[str, Any]) -> str:
    """Returns the share of the policy, or of the strongest player of the match."""
    players = row["measures"].get("players")
    name = entry_of(players[0]["name"]) if players else "policy"
    return show_share(row["keeping"].get(name), 1)


def _show_time(seconds: float) -> str:
    """Formats a duration, such as 0:12:30."""
    return str(timedelta(seconds=round(seconds)))


def _describe(stage: str, measures: dict[str, Any]) -> str:
    """Describes the measures of a stage in words."""
    shares = {name: show_share(x, 1) for name, x in measures.items() if name != "players"}
    if stage == GAMES:
        return f"{measures['games']:,} games, {measures['positions']:,} positions"
    if stage == "supervised":
        policy, rollout, chance = (shares.get(x, NONE) for x in _MEASURES[stage])
        return f"top-1 {policy} (rollout policy {rollout}, random {chance})"
    if stage == "reinforce":
        points, low, high = (shares.get(x, NONE) for x in _MEASURES[stage])
        return f"{points} of the points against supervised ({low} … {high})"
    if stage == "value":
        train, test, constant = (show_decimal(measures[x], 3) for x in _MEASURES[stage])
        return f"error {test} (training {train}, mean value {constant})"
    best = measures["players"][0]
    return f"highest Elo: {best['name']}, {show_elo(best)} ({show_interval(best)})"


def draw_stages(summary: dict[str, Any], stages: list[StageFolder], file: Path) -> None:
    """Draws one panel for each stage, and one with the shares of value-keeping moves.

    Args:
      summary: the summary, as returned by `summarize_stages`.
      stages: the stages in order, all finished.
      file: the file to write; its suffix sets the format.
    """
    figure = Figure(figsize=(15, 10), layout="constrained")
    panels = figure.subplots(2, 3).flat
    for axes, found, row in zip(panels, stages, summary["stages"], strict=False):
        if found.stage == GAMES:
            _draw_games(axes, found.folder)
        elif found.stage == "player":
            draw_intervals(axes, row["measures"]["players"])
        else:
            draw_panel(axes, _PANELS[found.stage], read_metrics(RunFolder(found.folder).metrics))
        axes.set_title(f"{found.stage}, {_show_time(row['seconds'])}\n{axes.get_title()}".strip())
    _draw_keeping(panels[-1], summary["stages"])
    save_figure(figure, summary["title"], file)


def _draw_games(axes: Axes, folder: Path) -> None:
    """Draws the results of the games by side."""
    splits = read_manifest(folder).splits.values()
    names = {"first_wins": "first side wins", "draws": "draw", "second_wins": "second side wins"}
    counts = [sum(x["results"][name] for x in splits) for name in names]
    draw_bars(axes, dict(zip(names.values(), counts, strict=True)), COLORS)
    axes.set(xlabel="games")


def _draw_keeping(axes: Axes, stages: list[dict[str, Any]]) -> None:
    """Draws the share of value-keeping moves after each stage."""
    bars = {
        f"{row['stage']}: {name.replace('_', ' ')}": (share, COLORS[number % len(COLORS)])
        for number, row in enumerate(stages)
        for name, share in row["keeping"].items()
        if name != "random" or row["stage"] == "supervised"
    }
    if not bars:
        axes.axis("off")
        return
    draw_bars(axes, {name: x for name, (x, _) in bars.items()}, [x for _, x in bars.values()])
    axes.set(xlim=(0, 1), title="moves that keep the game's value", xlabel="share")
