"""Makes a data set in a folder: from files of games, or from games of an engine."""

import dataclasses
import functools
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from dualmctx.console import Console
from dualmctx.datasets.build import BuildOptions, build_shards
from dualmctx.datasets.engine_games import GAMES
from dualmctx.datasets.finish import NoGamesError, finish
from dualmctx.datasets.loaded_engine import LoadedEngine, make_games
from dualmctx.datasets.manifest import Manifest
from dualmctx.datasets.records import RecordFile, open_records
from dualmctx.datasets.resume import (
    discard_data_set,
    is_complete,
    read_complete,
    reopen_data_set,
)
from dualmctx.datasets.state import BAD_GAMES, PARTS, BadGame, count_read
from dualmctx.datasets.tally import Tally
from dualmctx.errors import UserError
from dualmctx.runs.folder import CONFIG, create_run
from dualmctx.runs.progress import showing
from dualmctx.types import Environment

# Bad games that are reported one by one.
_MAX_REPORTED = 20


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a data set is made from games; `dualmctx dataset` has the same options."""

    game: str
    """The game, by name or as package.module:factory."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """Parameters of the game."""
    validation: float = 0.05
    """Share of the games for validation."""
    test: float = 0.05
    """Share of the games for the test."""
    results: Literal["game", "record"] = "game"
    """Where a finished game has its result from."""
    unknown_results: Literal["skip", "keep"] = "skip"
    """Whether to skip or to keep games without a result."""
    merge: bool = False
    """Whether to store equal positions with equal moves once."""
    block: int = 4096
    """Number of games that are read for one shard of each split."""


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

    Returns:
      The manifest.

    Raises:
      ValueError: if the folder is of another data set, or no game can be used.
    """
    engine = source if isinstance(source, LoadedEngine) else None
    files = [] if isinstance(source, LoadedEngine) else list(source)
    settings = _settings(recipe, env, files) | {"engine": engine and engine.record}
    (reopen_data_set if resume else create_run)(folder, settings)
    if is_complete(folder, settings):
        return read_complete(folder)
    if engine is not None:
        with showing(Console(stderr=True, highlight=False)) as show:
            make_games(engine, folder, functools.partial(show, "games"))
        files = [open_records(folder / GAMES, GAMES)]
    discard_data_set(folder)
    return _build(env, recipe, files, folder, settings, report)


def _settings(recipe: Recipe, env: Environment, files: Sequence[RecordFile]) -> dict[str, Any]:
    """Returns the settings on which the data set depends, as JSON values."""
    return dataclasses.asdict(recipe) | {
        "game": env.id if ":" not in recipe.game else recipe.game,
        "files": [{"name": x.name, "digest": x.file.digest} for x in files],
    }


def _build(
    env: Environment,
    recipe: Recipe,
    files: Sequence[RecordFile],
    folder: Path,
    settings: dict[str, Any],
    report: Callable[[str], None],
) -> Manifest:
    """Reads the games and finishes the data set."""
    number = _read_games(env, recipe, files, folder, report)
    try:
        manifest = finish(
            env,
            folder,
            files,
            game=settings["game"],
            game_parameters=settings["game_parameters"],
            settings=json.loads(json.dumps(settings)),
            merge=recipe.merge,
        )
    except NoGamesError as error:
        raise UserError(f"{error}{_clear(folder)}") from None
    if number > _MAX_REPORTED:
        report(f"{number - _MAX_REPORTED:,} more bad games: {folder / BAD_GAMES}")
    return manifest


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


def _read_games(
    env: Environment,
    recipe: Recipe,
    files: Sequence[RecordFile],
    folder: Path,
    report: Callable[[str], None],
) -> int:
    """Reads the games of files and reports the first bad ones; returns the number of bad games."""
    build = BuildOptions(
        validation=recipe.validation,
        test=recipe.test,
        prefer_record=recipe.results == "record",
        keep_unknown=recipe.unknown_results == "keep",
        block=recipe.block,
        game_parameters=recipe.game_parameters,
    )
    total, counts = sum(x.file.num_bytes for x in files), count_read(folder)
    with showing(Console(stderr=True, highlight=False), ends=False) as show:
        for block, last in build_shards(env, files, folder, build):
            for bad in block.bad[: max(0, _MAX_REPORTED - counts.bad)]:
                report(_describe(bad))
            counts = Tally.total((counts, block.counts))
            done = sum(x.file.num_bytes for x in files[: last.file]) + last.end
            show("bytes read", done, total, f"{counts.read:,} games")
    return counts.bad


def _describe(bad: BadGame) -> str:
    return f"{bad.file}, game {bad.number}: {bad.reason}"
