"""`dualmctx dataset GAME FILE ... --out FOLDER`: makes a data set of positions from games."""

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

import games
from dualmctx.commands.dataset_engines import load_engine, make_games
from dualmctx.commands.dataset_options import DESCRIPTION, PROGRAM, Options
from dualmctx.commands.dataset_resume import discard_data_set, is_complete, reopen_data_set
from dualmctx.commands.dataset_table import dataset_table, describe_games, describe_moves
from dualmctx.commands.flags import parse_flags
from dualmctx.datasets.build import BuildOptions, build_shards
from dualmctx.datasets.engine_games import GAMES
from dualmctx.datasets.finish import NoGamesError, finish
from dualmctx.datasets.manifest import MANIFEST, Manifest, read_manifest
from dualmctx.datasets.records import RecordFile, open_records
from dualmctx.datasets.state import BAD_GAMES, PARTS, BadGame, read_bad_games, read_state
from dualmctx.distributed.backend import require_backend
from dualmctx.runs.folder import CONFIG, create_run, lock_folder
from dualmctx.runs.progress import showing
from dualmctx.types import Environment

# Bad games that are reported one by one.
_MAX_REPORTED = 20


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, PROGRAM, DESCRIPTION)
    require_backend(PROGRAM)
    env = games.make(options.game, **options.game_parameters)
    files = [open_records(name) for name in options.files]
    folder = Path(options.out)
    engine = None if options.engine is None else load_engine(options, env)
    settings = _settings(options, env, files) | {"engine": engine and engine.record}
    with lock_folder(folder, resume=options.resume):
        if options.resume:
            reopen_data_set(folder, settings)
        else:
            create_run(folder, settings)
        try:
            if engine is not None and not is_complete(folder, settings):
                make_games(options, env, engine, folder)
                files = [open_records(folder / GAMES, GAMES)]
            manifest = _make(options, env, files, folder, settings)
        except KeyboardInterrupt:
            again = shlex.join([*PROGRAM.split(), *(x for x in arguments if x != "--resume")])
            raise KeyboardInterrupt(f"; to continue: {again} --resume") from None
    _show(manifest, env, folder)
    return 1 if manifest.counts["bad"] else 0


def _settings(options: Options, env: Environment, files: Sequence[RecordFile]) -> dict[str, Any]:
    """Returns the settings on which the data set depends, as JSON values."""
    names = ("validation", "test", "results", "unknown_results", "merge", "block")
    return {
        "game": env.id if ":" not in options.game else options.game,
        "game_parameters": options.game_parameters,
        "files": [{"name": x.name, "digest": x.digest} for x in files],
    } | {name: getattr(options, name) for name in names}


def _make(
    options: Options,
    env: Environment,
    files: Sequence[RecordFile],
    folder: Path,
    settings: dict[str, Any],
) -> Manifest:
    """Makes the data set, or what is missing of it."""
    if is_complete(folder, settings):
        # A kill may have left the parts of a complete data set.
        shutil.rmtree(folder / PARTS, ignore_errors=True)
        return read_manifest(folder)
    discard_data_set(folder)
    reported = _read_games(options, env, files, folder)
    try:
        manifest = finish(
            env,
            folder,
            files,
            game=settings["game"],
            game_parameters=settings["game_parameters"],
            settings=json.loads(json.dumps(settings)),
            merge=options.merge,
        )
    except NoGamesError as error:
        raise ValueError(f"{error}{_clear(folder)}") from None
    if reported > _MAX_REPORTED:
        more = reported - _MAX_REPORTED
        print(f"{PROGRAM}: {more:,} more bad games: {folder / BAD_GAMES}", file=sys.stderr)
    return manifest


def _clear(folder: Path) -> str:
    """Empties the folder of a data set without games, so that the next command can use it.

    Games of an engine that are not bad stay, because they may have taken long.

    Returns:
      The end of the message.
    """
    file, counts = folder / GAMES, read_state(folder).counts
    if file.exists() and counts.read > counts.bad:
        return f"; the games are in {file}, which a new command with another --out can read"
    shutil.rmtree(folder / PARTS, ignore_errors=True)
    for name in (GAMES, BAD_GAMES, CONFIG):
        (folder / name).unlink(missing_ok=True)
    return ""


def _read_games(
    options: Options, env: Environment, files: Sequence[RecordFile], folder: Path
) -> int:
    """Reads the games of files and reports the first bad ones; returns the number of bad games."""
    build = BuildOptions(
        validation=options.validation,
        test=options.test,
        prefer_record=options.results == "record",
        keep_unknown=options.unknown_results == "keep",
        block=options.block,
        game_parameters=options.game_parameters,
    )
    total, reported = sum(x.num_bytes for x in files), len(read_bad_games(folder))
    with showing(Console(stderr=True, highlight=False), ends=False) as show:
        for block in build_shards(env, files, folder, build):
            for bad in block.bad[: max(0, _MAX_REPORTED - reported)]:
                print(f"{PROGRAM}: {_describe(bad)}", file=sys.stderr)
            reported += len(block.bad)
            done = sum(x.num_bytes for x in files[: block.last.file]) + block.last.end
            show("bytes read", done, total, f"{block.state.counts.read:,} games")
    return reported


def _describe(bad: BadGame) -> str:
    return f"{bad.file}, game {bad.number}: {bad.reason}"


def _show(manifest: Manifest, env: Environment, folder: Path) -> None:
    console = Console(highlight=False)
    console.print(dataset_table(manifest))
    files = f"{MANIFEST}, SPLIT-NNNNN.npz" + (f", {BAD_GAMES}" * bool(manifest.counts["bad"]))
    where = f"data set in {folder}: {files}"
    for line in filter(None, (describe_games(manifest), describe_moves(manifest, env), where)):
        console.print(line, soft_wrap=True, markup=False)
