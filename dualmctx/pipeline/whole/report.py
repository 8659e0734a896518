"""The report of the whole pipeline: summary and table; `picture` has the picture."""

import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from dualmctx.datasets.manifest import read_manifest
from dualmctx.pipeline.player.match import entry_of
from dualmctx.pipeline.report_style import make_table
from dualmctx.pipeline.whole.first_games import read_seconds
from dualmctx.runs.folder import read_summary
from dualmctx.runs.numbers import show_elo, show_interval, show_share

GAMES = "games"
"""The name of the first stage, which makes the data set."""
# The entries of a stage's summary that are its measures.
_MEASURES = {
    "supervised": ("test/policy_top1", "test/rollout_top1", "test/chance_top1"),
    "reinforce": ("reinforce/points", "reinforce/points_low", "reinforce/points_high"),
    "value": ("value/train_mse", "value/test_mse", "constant/test_mse"),
    "player": (),
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
    table = make_table(summary["title"], ("stage", "time", "measure", "keeps value"))
    table.columns[2].justify = "left"
    for row in summary["stages"]:
        describe: Callable[[dict[str, Any]], str] = _DESCRIBE[row["stage"]]
        kept = _kept(row)
        table.add_row(row["stage"], show_time(row["seconds"]), describe(row["measures"]), kept)
    table.add_row("all", show_time(summary["seconds"]), "", "")
    return table


def _kept(row: dict[str, Any]) -> str:
    """Returns the share of the policy, or of the strongest player of the match."""
    players = row["measures"].get("players")
    name = entry_of(players[0]["name"]) if players else "policy"
    return show_share(row["keeping"].get(name), 1)


def show_time(seconds: float) -> str:
    """Formats a duration, such as 0:12:30."""
    return str(timedelta(seconds=round(seconds)))


def _describe_games(measures: dict[str, Any]) -> str:
    return f"{measures['games']:,} games, {measures['positions']:,} positions"


def _describe_supervised(measures: dict[str, Any]) -> str:
    policy, rollout, chance = (
        show_share(measures.get(f"test/{name}_top1"), 1) for name in ("policy", "rollout", "chance")
    )
    return f"top-1 {policy} (rollout policy {rollout}, random {chance})"


def _describe_reinforce(measures: dict[str, Any]) -> str:
    points, low, high = (
        show_share(measures.get(f"reinforce/points{end}"), 1) for end in ("", "_low", "_high")
    )
    return f"{points} of the points against supervised ({low} … {high})"


def _describe_value(measures: dict[str, Any]) -> str:
    train, test, constant = (
        measures[x] for x in ("value/train_mse", "value/test_mse", "constant/test_mse")
    )
    return f"error {test:.3f} (training {train:.3f}, mean value {constant:.3f})"


def _describe_player(measures: dict[str, Any]) -> str:
    best = measures["players"][0]
    return f"highest Elo: {best['name']}, {show_elo(best)} ({show_interval(best)})"


_DESCRIBE = {
    GAMES: _describe_games,
    "supervised": _describe_supervised,
    "reinforce": _describe_reinforce,
    "value": _describe_value,
    "player": _describe_player,
}
