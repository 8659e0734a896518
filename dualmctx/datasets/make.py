"""Makes a data set in a folder, from files of games or from games of an engine, or continues it."""

import dataclasses
import functools
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dualmctx.console import Console
from dualmctx.datasets.build import (
    BAD_GAMES,
    PARTS,
    NoGamesError,
    Recipe,
    build_shards,
    count_read,
    finish,
)
from dualmctx.datasets.engines import LoadedEngine, make_games
from dualmctx.datasets.manifest import (
    MANIFEST,
    Manifest,
    Tally,
    describe_split,
    read_manifest,
)
from dualmctx.datasets.records import RecordFile, open_records
from dualmctx.datasets.shards import shard_path
from dualmctx.errors import UserError
from dualmctx.matches.game_file import GAMES
from dualmctx.runs.folder import (
    CONFIG,
    RunFolder,
    create_run,
    read_config,
    reopen_run,
    with_versions,
)
from dualmctx.runs.journal import reopen_journal
from dualmctx.runs.progress import showing
from dualmctx.types import Environment

# Bad games that are reported one by one.
_MAX_REPORTED = 20


def make_dataset(
    env: Environment,
    recipe: Recipe,
    source: Sequence[RecordFile] | LoadedEngine,
    folder: Path,
    *,
    resume: bool,
    report: Callable[[str], None],
) -> Manifest:
    """Makes a data set, or the part of it that is missing, in a locked folder.

    Args:
      env: the game.
      recipe: how the data set is made.
      source: files of games, or an engine that plays them.
      folder: the folder.
      resume: whether to continue in a folder of an earlier call.
      report: called with a line about each of the first bad games.

    Raises:
      NoGamesError: if no game can be used.
      UserError: if the folder is of another data set.
    """
    engine = source if isinstance(source, LoadedEngine) else None
    files = [] if isinstance(source, LoadedEngine) else list(source)
    settings = dataclasses.asdict(recipe) | {
        "game": recipe.game if ":" in recipe.game else env.id,
        "files": [{"name": x.name, "digest": x.file.digest} for x in files],
        "engine": engine and engine.record,
    }
    (_reopen if resume else create_run)(folder, settings)
    known = read_manifest(folder).settings if (folder / MANIFEST).exists() else None
    if known is not None and _num_games(known) == _num_games(settings):
        return read_complete(folder)
    if engine is not None:
        with showing(Console(stderr=True, highlight=False)) as show:
            make_games(engine, folder, functools.partial(show, "games"))
        files = [open_records(folder / GAMES, GAMES)]
    # First, so that a kill leaves no incomplete data set with a manifest.
    (folder / MANIFEST).unlink(missing_ok=True)
    keep_equal = engine is not None and engine.keeps_equal_games
    number = _read_games(env, recipe, files, folder, report, keep_duplicates=keep_equal)
    try:
        manifest = finish(env, folder, files, recipe, json.loads(json.dumps(settings)))
    except NoGamesError as error:
        raise NoGamesError(f"{error}{_clear(folder)}") from None
    if number > _MAX_REPORTED:
        report(f"{number - _MAX_REPORTED:,} more bad games: {folder / BAD_GAMES}")
    return manifest


def _read_games(
    env: Environment,
    recipe: Recipe,
    files: Sequence[RecordFile],
    folder: Path,
    report: Callable[[str], None],
    *,
    keep_duplicates: bool,
) -> int:
    """Reads the games of files and reports the first bad ones; returns the number of bad games."""
    total, counts = sum(x.file.num_bytes for x in files), count_read(folder)
    with showing(Console(stderr=True, highlight=False), ends=False) as show:
        for block, last in build_shards(
            env, files, folder, recipe, keep_duplicates=keep_duplicates
        ):
            for bad in block.bad[: max(0, _MAX_REPORTED - counts.bad)]:
                report(f"{bad.file}, game {bad.number}: {bad.reason}")
            counts = Tally.total((counts, block.counts))
            done = sum(x.file.num_bytes for x in files[: last.file]) + last.end
            show("bytes read", done, total, f"{counts.read:,} games")
    return counts.bad


def _clear(folder: Path) -> str:
    """Empties the folder of a data set without games, so that the next command can use it.

    Games of an engine that are not bad stay, because they may have taken long.

    Returns:
      The end of the message.
    """
    file, counts = folder / GAMES, count_read(folder)
    if file.exists() and counts.read > counts.bad:
        return f"; the games are in {file}, which a new command with another --out can read"
    shutil.rmtree(folder / PARTS, ignore_errors=True)
    for name in (GAMES, BAD_GAMES, CONFIG):
        (folder / name).unlink(missing_ok=True)
    return ""


def _reopen(folder: Path, settings: dict[str, Any]) -> None:
    """Opens a folder to continue its data set; the number of an engine's games may have grown.

    Raises:
      UserError: if there is no data set, its settings differ, or there are fewer games.
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


def _num_games(settings: dict[str, Any]) -> int | None:
    """Returns the number of games of the engine; `None` for files of games."""
    return (settings.get("engine") or {}).get("games")


def read_complete(folder: Path) -> Manifest:
    """Returns the manifest of a complete data set, after a check of its other files.

    Raises:
      UserError: if a file is missing or damaged, or has other games than the manifest says.
    """
    manifest = read_manifest(folder)
    reopen_journal(folder / BAD_GAMES, least=manifest.counts["bad"])
    for split, expected in manifest.splits.items():
        paths = [shard_path(folder, split, number) for number in range(expected["shards"])]
        if describe_split(paths, len(expected["moves"])) != expected:
            raise UserError(
                f"the shards of {split} in {folder} have other games than {MANIFEST} says; make "
                "the data set again"
            )
    # A kill may have left the parts.
    shutil.rmtree(folder / PARTS, ignore_errors=True)
    return manifest
