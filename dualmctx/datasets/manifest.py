"""The manifest of a data set: its game, how it was made, its splits and its statistics."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import games
from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.runs.versions import with_versions, without_versions
from dualmctx.types import Environment

MANIFEST = "dataset.json"


class Manifest(NamedTuple):
    """The content of `dataset.json`; docs/datasets.md describes the entries.

    Attributes:
      game: the name of the game, as for `games.make`.
      game_parameters: its parameters.
      settings: the settings with which the data set was made.
      files: name, digest and number of games of each file of records.
      counts: counts of all games that were read, see `tally.Tally`.
      splits: statistics of each split, see `tally.describe_split`, with the number of its shards.
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
        content = dict(json.loads(file.read_text(encoding="utf-8")))
        return Manifest(**without_versions(content, file))
    except (TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}; make the data set again") from None


def open_game(manifest: Manifest, env: Environment | None, folder: Path) -> Environment:
    """Returns the game of a data set, or checks that a given game is the same.

    Raises:
      ValueError: if the data set is of another game.
    """
    own = games.make(manifest.game, **manifest.game_parameters) if env is None else env
    if env is None:
        return own
    found = _describe(manifest.game, manifest.game_parameters)
    if env.id != manifest.game.replace("-", "_") and ":" not in manifest.game:
        raise UserError(f"{folder} is a data set of {found}, not of {env.id}; use another one")
    num_actions = len(next(iter(manifest.splits.values()))["moves"])
    if env.num_actions != num_actions:
        raise UserError(
            f"{folder} is a data set of {found} with {num_actions} actions, but the game has "
            f"{env.num_actions}; use the same parameters"
        )
    return env


def _describe(game: str, parameters: dict[str, Any]) -> str:
    return " ".join([game, *(f"{name} {value}" for name, value in parameters.items())])
