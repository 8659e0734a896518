"""`dualmctx dataset GAME FILE ... --out FOLDER`: makes a data set of positions from games."""

import dataclasses
import shlex
import sys
from pathlib import Path

import games
from dualmctx.commands.dataset_engines import load_engine
from dualmctx.commands.dataset_options import DESCRIPTION, PROGRAM, Options
from dualmctx.commands.dataset_table import dataset_table, describe_games, describe_moves
from dualmctx.commands.flags import parse_flags
from dualmctx.console import Console
from dualmctx.datasets.make import Recipe, make_dataset
from dualmctx.datasets.manifest import MANIFEST, Manifest
from dualmctx.datasets.records import open_records
from dualmctx.datasets.state import BAD_GAMES
from dualmctx.distributed.backend import require_backend
from dualmctx.runs.folder import lock_folder
from dualmctx.types import Environment


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, PROGRAM, DESCRIPTION)
    require_backend(PROGRAM)
    env = games.make(options.game, **options.game_parameters)
    files = [open_records(name) for name in options.files]
    folder = Path(options.out)
    source = files if options.engine is None else load_engine(options, env)
    recipe = Recipe(**{x.name: getattr(options, x.name) for x in dataclasses.fields(Recipe)})
    with lock_folder(folder, resume=options.resume):
        try:
            manifest = make_dataset(
                env, recipe, source, folder, resume=options.resume, report=_report
            )
        except KeyboardInterrupt:
            again = shlex.join([*PROGRAM.split(), *(x for x in arguments if x != "--resume")])
            raise KeyboardInterrupt(f"; to continue: {again} --resume") from None
    _show(manifest, env, folder)
    return 1 if manifest.counts["bad"] else 0


def _report(line: str) -> None:
    print(f"{PROGRAM}: {line}", file=sys.stderr)


def _show(manifest: Manifest, env: Environment, folder: Path) -> None:
    console = Console(highlight=False)
    console.print(dataset_table(manifest))
    bad = f", {BAD_GAMES}" if manifest.counts["bad"] else ""
    files = f"{MANIFEST}, SPLIT-NNNNN.safetensors{bad}"
    where = f"data set in {folder}: {files}"
    for line in filter(None, (describe_games(manifest), describe_moves(manifest, env), where)):
        console.print(line, soft_wrap=True, markup=False)
