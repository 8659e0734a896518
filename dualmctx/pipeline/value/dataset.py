"""The data set of games for the value network, in a folder that survives a kill."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dualmctx.datasets.build import BuildOptions, build_shards
from dualmctx.datasets.engine_games import GAMES, GameSpec
from dualmctx.datasets.finish import NoGamesError, finish
from dualmctx.datasets.loaded_engine import LoadedEngine, make_games
from dualmctx.datasets.manifest import MANIFEST, Manifest
from dualmctx.datasets.records import open_records
from dualmctx.datasets.resume import read_complete
from dualmctx.datasets.state import read_blocks
from dualmctx.errors import UserError
from dualmctx.pipeline.value.games import (
    GameOptions,
    Policies,
    find_max_opening_plies,
    play_games,
    sample_openings,
)
from dualmctx.runs.folder import CONFIG, create_run, read_config, reopen_run
from dualmctx.types import Environment


def make_value_games(
    env: Environment,
    policies: Policies,
    options: GameOptions,
    folder: Path,
    *,
    game: str,
    game_parameters: dict[str, Any],
    inputs: dict[str, Any],
    show: Callable[[int, int], None] = lambda done, total: None,
) -> Manifest:
    """Makes the data set of games, or the part of it that is missing after a kill.

    Args:
      env: a game of `games.make`.
      policies: the policies.
      options: the options.
      folder: the folder of the data set.
      game: the name of the game.
      game_parameters: its parameters.
      inputs: the identity of the policies, as JSON values; a folder of other policies is refused.
      show: called with the number of games played and of all games.

    Returns:
      The manifest. Its counts have the dropped games: `without_positions` are those that were over
      before their position existed, `without_result` those that were stopped.

    Raises:
      ValueError: if the folder has games of other policies or options, all games are dropped, or an
        output of a policy is NaN or infinite.
    """
    settings = {"inputs": inputs, **options._asdict()}
    settings["max_opening_plies"] = _open_folder(env, policies, options, folder, settings)
    if (folder / MANIFEST).exists():
        return read_complete(folder)
    openings = sample_openings(options, settings["max_opening_plies"])
    play = functools.partial(play_games, env, policies, options, openings)
    engine = LoadedEngine(GameSpec(game, game_parameters), settings, options.number, play)
    make_games(engine, folder, show)
    return _build(env, folder, options, game, game_parameters, settings)


def _open_folder(
    env: Environment,
    policies: Policies,
    options: GameOptions,
    folder: Path,
    settings: dict[str, Any],
) -> int:
    """Creates or reopens the folder; returns the largest U."""
    if not (folder / CONFIG).exists():
        largest = options.max_opening_plies or find_max_opening_plies(env, policies, options)
        create_run(folder, settings | {"max_opening_plies": largest})
        return largest
    # The default was found once, because another device may round differently.
    found = read_config(folder).get("max_opening_plies")
    if not isinstance(found, int):
        raise UserError(
            f"{folder / CONFIG}: max_opening_plies is {found!r}; it must be a whole number; put "
            f"back a copy, or remove {folder}, and its games are played again"
        )
    largest = options.max_opening_plies or found
    reopen_run(folder, settings | {"max_opening_plies": largest})
    return largest


def _build(
    env: Environment,
    folder: Path,
    options: GameOptions,
    game: str,
    game_parameters: dict[str, Any],
    settings: dict[str, Any],
) -> Manifest:
    """Makes the shards from the games; equal games stay, because they are independent samples."""
    files = [open_records(folder / GAMES, GAMES)]
    build = BuildOptions(validation=0.0, test=options.test, keep_duplicates=True)
    for _ in build_shards(env, files, folder, build):
        pass
    for bad in (game for block in read_blocks(folder) for game in block.bad):
        raise UserError(
            f"game {bad.number} in {folder / GAMES} is bad: {bad.reason}; remove {folder}, and its "
            "games are played again"
        )
    parameters = {"game": game, "game_parameters": game_parameters}
    try:
        return finish(env, folder, files, **parameters, settings=settings, merge=False)
    except NoGamesError as error:
        raise UserError(
            f"{error}; all games were over before their position existed, or were stopped: choose "
            f"a smaller largest U than {settings['max_opening_plies']}, or more plies"
        ) from None
