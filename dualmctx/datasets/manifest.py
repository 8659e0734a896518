"""The manifest of a data set: its game, how it was made, its splits and its statistics."""

import collections
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import numpy as np
from msgspec import Meta

import games
from dualmctx.datasets.shards import SPLITS, find_shards, read_shard
from dualmctx.errors import UserError
from dualmctx.import_path import require_named
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.runs.folder import with_versions, without_versions
from dualmctx.typed_values import decode_fields
from dualmctx.types import Environment

MANIFEST = "dataset.json"
_SIDES = {1: "first_wins", 0: "draws", -1: "second_wins"}


class Tally(NamedTuple):
    """Counts of the games that have been read.

    Attributes:
      read: games read.
      bad: games that cannot be used.
      duplicates: games that are equal, up to a symmetry, to an earlier one.
      without_result: games that were skipped because they have no result.
      without_positions: games that were skipped because no player chose a move.
      contradicted: games kept whose file and whose end give different results.
    """

    read: int = 0
    bad: int = 0
    duplicates: int = 0
    without_result: int = 0
    without_positions: int = 0
    contradicted: int = 0

    @classmethod
    def total(cls, tallies: Iterable["Tally"]) -> "Tally":
        """Returns the sums of counts."""
        return cls(*map(sum, zip(*tallies, strict=True)))


class Manifest(NamedTuple):
    """The content of `dataset.json`; docs/datasets.md describes the entries.

    Attributes:
      game: the name of the game, as for `games.make`.
      game_parameters: its parameters.
      settings: the settings with which the data set was made.
      files: name, digest and number of games of each file of records.
      counts: counts of all games that were read, see `Tally`.
      splits: statistics of each split, see `describe_split`.
      shared: number of rows of each split whose position occurs in the training split too.
      distinct: number of different positions of each split, up to symmetry.
    """

    game: str
    game_parameters: dict[str, Any]
    settings: dict[str, Any]
    files: list[dict[str, Any]]
    counts: dict[str, int]
    splits: dict[str, dict[str, Any]]
    shared: dict[str, int]
    distinct: dict[str, int]

    @property
    def num_positions(self) -> int:
        """The number of positions of all splits, merged ones included."""
        return sum(split["positions"] for split in self.splits.values())


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes the manifest atomically; a folder with a manifest is a complete data set."""
    text = json.dumps(with_versions(manifest._asdict()), indent=1)
    atomic_write_text(folder / MANIFEST, text + "\n")


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest of a data set.

    Raises:
      ValueError: if the folder is not a complete data set, or has another format.
    """
    file = folder / MANIFEST
    if not file.is_file():
        raise UserError(
            f"{folder} is not a complete data set: it has no {MANIFEST}; make it with dualmctx "
            "dataset, or finish it with --resume"
        )
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}; make the data set again") from None
    content = without_versions(content, file) if isinstance(content, dict) else {}
    try:
        decode_fields(content, _ENTRIES)
    except UserError as error:
        raise UserError(f"{file} cannot be read: {error}; make the data set again") from None
    return Manifest(**{name: content[name] for name in _ENTRIES})


def dataset_digest(folder: Path) -> str:
    """Identifies the content of a complete data set by its manifest."""
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()[:16]


def check_splits(folder: Path, env: Environment, splits: Iterable[str]) -> Manifest:
    """Checks that a data set of a game has the shards and positions of some splits.

    Raises:
      UserError: if it is incomplete, of another game, or has no position in one of the splits, or
        if a shard is missing or cut off.
    """
    manifest = read_manifest(folder)
    open_game(manifest, env, folder)
    for split in splits:
        if not manifest.splits[split]["rows"]:
            raise UserError(
                f"the data set {folder} has no positions in the split {split}; make one with more "
                "games, or with larger shares --validation and --test"
            )
        find_shards(folder, split, manifest.splits[split])
    return manifest


_Count = Annotated[int, Meta(ge=0)]
_Lengths = dict[Annotated[str, Meta(pattern="^[0-9]+$")], _Count]


_COUNTED = dict.fromkeys(("games", "positions", "rows", "shards"), _Count)


def _object(entries: dict[str, Any]) -> Any:
    """Returns the type of an object with some entries; others may follow."""
    return TypedDict("Entries", entries)  # pyright: ignore[reportArgumentType]


_SPLIT = _object(
    _COUNTED | {"moves": list[_Count], "results": dict[str, _Count], "lengths": _Lengths}
)
_ENTRIES: dict[str, Any] = {
    "game": str,
    "game_parameters": dict,
    "settings": dict,
    "files": list[_object({"name": str})],
    "counts": _object(dict.fromkeys(Tally._fields, _Count)),
    "splits": _object(dict.fromkeys(SPLITS, _SPLIT)),
    "shared": dict[str, _Count],
    "distinct": _object(dict.fromkeys(SPLITS, _Count)),
}


def open_game(manifest: Manifest, env: Environment | None, folder: Path) -> Environment:
    """Returns the game of a data set, or checks that a given game is the same.

    Raises:
      UserError: if the data set is of another game; or without a game, if it is of one outside the
        package, whose code only the user may name.
    """
    if env is None:
        remedy = f"in Python env=games.make({manifest.game!r}, ...)"
        require_named(manifest.game, (), folder, "game", remedy)
        try:
            return games.make(manifest.game, **manifest.game_parameters)
        except UserError as error:
            raise UserError(f"{folder} is of a game that cannot be made: {error}") from error
    parameters = (f"{name} {value}" for name, value in manifest.game_parameters.items())
    found = " ".join([manifest.game, *parameters])
    if env.id != manifest.game.replace("-", "_") and ":" not in manifest.game:
        raise UserError(f"{folder} is a data set of {found}, not of {env.id}; use another one")
    num_actions = len(next(iter(manifest.splits.values()))["moves"])
    if env.num_actions != num_actions:
        raise UserError(
            f"{folder} is a data set of {found} with {num_actions} actions, but the game has "
            f"{env.num_actions}; use the same parameters"
        )
    return env


def describe_split(paths: Sequence[Path], num_actions: int) -> dict[str, Any]:
    """Returns the statistics of a split with these shards, in a game of `num_actions` actions.

    Returns:
      `shards`; `games`; `positions`, merged ones included; `rows`, the positions that are stored;
      `results` by side; `lengths`, the numbers of games by their number of moves; `moves`, how
      often each action was played.
    """
    games = positions = rows = 0
    results: collections.Counter[str] = collections.Counter()
    lengths: collections.Counter[int] = collections.Counter()
    moves = np.zeros(num_actions, np.int64)
    for shard in map(read_shard, paths):
        games, rows = games + len(shard.lengths), rows + len(shard.plies)
        positions += int(shard.counts.sum())
        results.update(
            "unknown" if math.isnan(x) else _SIDES[int(np.sign(x))] for x in shard.results.tolist()
        )
        lengths.update(shard.lengths.tolist())
        moves += np.bincount(shard.moves[~shard.is_random], minlength=num_actions)
    return {
        "games": games,
        "positions": positions,
        "rows": rows,
        "results": {name: results[name] for name in (*_SIDES.values(), "unknown")},
        "lengths": {str(length): lengths[length] for length in sorted(lengths)},
        "moves": moves.tolist(),
        "shards": len(paths),
    }


def summarize_lengths(lengths: dict[str, int]) -> tuple[int, float, int] | None:
    """Returns the smallest, the mean and the largest length; `None` without games."""
    if not lengths:
        return None
    numbers, counts = np.array([*map(int, lengths)]), np.array([*lengths.values()])
    return int(numbers.min()), float(np.average(numbers, weights=counts)), int(numbers.max())
