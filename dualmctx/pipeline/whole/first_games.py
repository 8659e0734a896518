"""The games from which the whole pipeline starts: their engine, and the data set of them."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

from dualmctx.datasets.build import Recipe
from dualmctx.datasets.engines import (
    EngineSpec,
    GameSpec,
    LoadedEngine,
    default_random_share,
    load_engine,
)
from dualmctx.datasets.make import make_dataset
from dualmctx.datasets.manifest import read_manifest
from dualmctx.datasets.self_play import PlayOptions
from dualmctx.datasets.shards import SPLITS
from dualmctx.errors import UserError
from dualmctx.experiment.messages import resume_command
from dualmctx.pipeline.config import AlphaGoConfig
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.runs.folder import CONFIG, lock_folder
from dualmctx.types import Environment

SECONDS = "seconds.json"
"""The file, beside the data set, with the seconds that its making took."""


def load_first_engine(env: Environment, config: AlphaGoConfig) -> LoadedEngine:
    """Loads the engine that plays the games.

    Raises:
      UserError: if it does not support the game, or is not installed.
    """
    options = config.games
    share = options.random_share
    share = default_random_share(options.engine) if share is None else share
    play = PlayOptions(config.seed, options.opening_plies, share)
    game = GameSpec(config.game, dict(config.game_parameters))
    spec = EngineSpec(options.engine, simulations=options.simulations)
    return load_engine(env, game, spec, options.number, play)


def make_first_games(
    env: Environment,
    config: AlphaGoConfig,
    engine: LoadedEngine,
    folder: Path,
    report: Callable[[str], None],
) -> None:
    """Makes the data set of the games, or the part of it that is missing.

    `report` is called with a line about each of the first bad games.

    Raises:
      ValueError: if the folder is of another data set, or no game can be used.
      KeyboardInterrupt: if it is stopped. Its argument says how to continue.
    """
    resume, start = (folder / CONFIG).exists(), time.perf_counter()
    recipe = Recipe(
        config.game,
        dict(config.game_parameters),
        validation=config.games.validation,
        test=config.games.test,
    )
    with lock_folder(folder, resume=resume):
        try:
            make_dataset(env, recipe, engine, folder, resume=resume, report=report)
        except KeyboardInterrupt:
            message = f"; the games so far are saved; continue with: {resume_command()}"
            raise KeyboardInterrupt(message) from None
        finally:
            if (folder / CONFIG).exists():
                seconds = read_seconds(folder) + time.perf_counter() - start
                atomic_write_text(folder / SECONDS, json.dumps({"seconds": seconds}) + "\n")


def require_splits(folder: Path, number: int) -> None:
    """Checks that every split of a data set of `number` games has positions.

    Raises:
      UserError: if a split has none.
    """
    splits = read_manifest(folder).splits
    empty = [name for name in SPLITS if not splits.get(name, {}).get("rows", 0)]
    if empty:
        raise UserError(
            f"games.number is {number}; these games leave no positions for {' and '.join(empty)}: "
            "start again in another folder, with more games or larger shares --games.validation "
            "and --games.test"
        )


def read_seconds(folder: Path) -> float:
    """Returns the seconds that the making of a data set took; 0 if they are not known."""
    try:
        seconds = float(json.loads((folder / SECONDS).read_text())["seconds"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0.0
    return seconds if math.isfinite(seconds) else 0.0
