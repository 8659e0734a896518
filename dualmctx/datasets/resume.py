"""Continues a data set, also with more games of an engine."""

import shutil
from pathlib import Path
from typing import Any

from dualmctx.datasets.manifest import MANIFEST, Manifest, read_manifest
from dualmctx.datasets.shards import SPLITS, read_shard, shard_path, shard_paths
from dualmctx.datasets.state import BAD_GAMES, PARTS
from dualmctx.datasets.tally import describe_split
from dualmctx.errors import UserError
from dualmctx.runs.folder import CONFIG, RunFolder, read_config, reopen_run, with_versions
from dualmctx.runs.journal import reopen_journal


def reopen_data_set(folder: Path, settings: dict[str, Any]) -> None:
    """Opens a folder to continue its data set; the number of an engine's games may have grown.

    Raises:
      ValueError: if there is no data set, its settings differ, or there are fewer games.
    """
    before, now = _num_games(read_config(folder)), _num_games(settings)
    if before is None or now is None or before == now:
        reopen_run(folder, settings)
        return
    reopen_run(folder, settings | {"engine": settings["engine"] | {"games": before}})
    if now < before:
        raise UserError(
            f"games is {now}, but the data set in {folder} is of {before} games; use at least as "
            "many, or choose another folder"
        )
    # The last block may hold more games now.
    shutil.rmtree(folder / PARTS, ignore_errors=True)
    RunFolder(folder).write_json(CONFIG, with_versions(settings))


def is_complete(folder: Path, settings: dict[str, Any]) -> bool:
    """Returns whether the folder is a data set of all games of the settings."""
    if not (folder / MANIFEST).exists():
        return False
    return _num_games(read_manifest(folder).settings) == _num_games(settings)


def read_complete(folder: Path) -> Manifest:
    """Returns the manifest of a complete data set, after a check of its other files.

    Raises:
      UserError: if a file is missing or damaged, or has other games than the manifest says.
    """
    manifest = read_manifest(folder)
    reopen_journal(folder / BAD_GAMES, least=manifest.counts["bad"])
    for split, expected in manifest.splits.items():
        paths = [shard_path(folder, split, number) for number in range(expected["shards"])]
        found = describe_split(map(read_shard, paths), len(expected["moves"]))
        if found | {"shards": len(paths)} != expected:
            raise UserError(
                f"the shards of {split} in {folder} have other games than {MANIFEST} says; make "
                "the data set again"
            )
    # A kill may have left the parts.
    shutil.rmtree(folder / PARTS, ignore_errors=True)
    return manifest


def discard_data_set(folder: Path) -> None:
    """Removes a data set of fewer games, but not the games; without one, changes nothing."""
    if not (folder / MANIFEST).exists():
        return
    # First, so that a kill leaves no incomplete data set with a manifest.
    (folder / MANIFEST).unlink()
    (folder / BAD_GAMES).unlink(missing_ok=True)
    for split in SPLITS:
        for path in shard_paths(folder, split):
            path.unlink()


def _num_games(settings: dict[str, Any]) -> int | None:
    """Returns the number of games of the engine; `None` for files of games."""
    return (settings.get("engine") or {}).get("games")
