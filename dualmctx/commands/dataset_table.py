"""The statistics of a data set as tables for a terminal."""

import numpy as np
import rich.table
from rich import box
from rich.text import Text

import games
from dualmctx.datasets.manifest import Manifest, summarize_lengths
from dualmctx.datasets.shards import SPLITS
from dualmctx.runs.numbers import show_number, show_share
from dualmctx.types import Environment

_MOVES = 8
_COUNTS = {
    "read": "read",
    "bad": "bad",
    "duplicates": "duplicates",
    "without_result": "without a result",
    "without_positions": "without a chosen move",
    "contradicted": "kept although their file has another result",
}


def dataset_table(manifest: Manifest) -> rich.table.Table:
    """Returns a table with a column for each split."""
    table = rich.table.Table(
        title=f"{manifest.game}, {manifest.num_positions:,} positions",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("")
    for split in SPLITS:
        table.add_column(split, justify="right")
    for label, cells in _rows(manifest).items():
        table.add_row(label, *map(Text, cells))
    return table


def _rows(manifest: Manifest) -> dict[str, list[str]]:
    splits = [manifest.splits[name] for name in SPLITS]
    lengths = [summarize_lengths(split["lengths"]) for split in splits]
    shared = [manifest.shared.get(name) for name in SPLITS]
    return {
        "games": [show_number(split["games"]) for split in splits],
        "positions": [show_number(split["positions"]) for split in splits],
        "rows stored": [show_number(split["rows"]) for split in splits],
        "different positions": [show_number(manifest.distinct[name]) for name in SPLITS],
        "rows also in training": [show_number(number) for number in shared],
        "moves per game": ["{} … {:.1f} … {}".format(*x) if x else "–" for x in lengths],
        **{
            label: [_share(split, name) for split in splits]
            for name, label in (
                ("first_wins", "won by the first side"),
                ("draws", "drawn"),
                ("second_wins", "won by the second side"),
                ("unknown", "result unknown"),
            )
        },
    }


def _share(split: dict, name: str) -> str:
    return show_share(split["results"][name] / split["games"], 1) if split["games"] else "–"


def describe_games(manifest: Manifest) -> str:
    """Describes how many games were read, and why some of them are not in the data set."""
    counts = [f"{manifest.counts[name]:,} {label}" for name, label in _COUNTS.items()]
    shown = [text for text in counts if not text.startswith("0 ")]
    return f"games: {', '.join(shown)}"


def describe_moves(manifest: Manifest, env: Environment) -> str | None:
    """Describes the moves that were played most often, over all splits.

    Returns `None` for chess, in which the name of an action depends on the position.
    """
    if games.is_chess(env):
        return None
    totals = np.sum([split["moves"] for split in manifest.splits.values()], axis=0)
    played = np.argsort(-totals, kind="stable")[:_MOVES]
    chosen = [int(action) for action in played if totals[action]]
    names = [games.format_moves(env, None, [action])[0] for action in chosen]
    shares = [show_share(totals[action] / totals.sum(), 1) for action in chosen]
    return f"moves: {', '.join(map(' '.join, zip(names, shares, strict=True)))}"
