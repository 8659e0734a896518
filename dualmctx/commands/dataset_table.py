"""The statistics of a data set as tables for a terminal."""

import numpy as np

import games
from dualmctx.datasets.manifest import Manifest, summarize_lengths
from dualmctx.datasets.shards import SPLITS
from dualmctx.reports.numbers import NONE, show_number, show_share
from dualmctx.reports.table import Table
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


_RESULTS = {
    "first_wins": "won by the first side",
    "draws": "drawn",
    "second_wins": "won by the second side",
    "unknown": "result unknown",
}


def dataset_table(manifest: Manifest) -> Table:
    """Returns a table with a column for each split."""
    splits = [manifest.splits[name] for name in SPLITS]
    lengths = [summarize_lengths(split["lengths"]) for split in splits]
    rows = {
        "games": [show_number(split["games"]) for split in splits],
        "positions": [show_number(split["positions"]) for split in splits],
        "rows stored": [show_number(split["rows"]) for split in splits],
        "different positions": [show_number(manifest.distinct[name]) for name in SPLITS],
        "rows also in training": [show_number(manifest.shared.get(name)) for name in SPLITS],
        "moves per game": ["{} … {:.1f} … {}".format(*x) if x else NONE for x in lengths],
    }
    for name, label in _RESULTS.items():
        shares = (x["results"][name] / x["games"] if x["games"] else None for x in splits)
        rows[label] = [show_share(share, 1) for share in shares]
    title = f"{manifest.game}, {manifest.num_positions:,} positions"
    return Table(title, ("", *SPLITS), [(label, *cells) for label, cells in rows.items()])


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
