"""Engines that are ready to play the games of a data set."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import games
from dualmctx.datasets.engine_games import (
    GAMES,
    GameSpec,
    append_games,
    count_games,
    play_on_device,
    play_on_host,
)
from dualmctx.datasets.engines import BITBULLY, OPENSPIEL, HostEngineSpec, device_engine
from dualmctx.datasets.self_play import PlayedGame, PlayOptions
from dualmctx.errors import UserError
from dualmctx.matches.players import Player, perfect_player
from dualmctx.runs.console import Console
from dualmctx.runs.progress import showing
from dualmctx.types import Environment

PERFECT = "perfect"
"""The engine that plays by the exact solution of a small game."""
_RANDOM_SHARE = 0.1


class LoadedEngine(NamedTuple):
    """An engine that is ready to play.

    Attributes:
      game: the game, for the file of its games.
      record: the settings that determine its games, as JSON values.
      num_games: the number of games.
      play: `(first) -> batches of games`, from the game with that number on.
    """

    game: GameSpec
    record: dict[str, Any]
    num_games: int
    play: Callable[[int], Iterator[list[PlayedGame]]]


def host_engine(
    env: Environment,
    game: GameSpec,
    spec: HostEngineSpec,
    num_games: int,
    options: PlayOptions,
    num_processes: int,
) -> LoadedEngine:
    """Loads an engine that runs in processes of the host.

    Args:
      env: the game.
      game: the same game, from which each process makes its own.
      spec: the engine.
      num_games: number of games.
      options: how the games are played.
      num_processes: number of processes; the games do not depend on it.

    Raises:
      ValueError: if the engine does not support the game, is not installed, or cannot be started.
    """
    spec.check(env)
    record = _record(spec.kind, num_games, options)
    if spec.kind == OPENSPIEL:
        record |= {"simulations": spec.simulations}
    if spec.command:
        record |= {"command": spec.command}

    def play(first: int) -> Iterator[list[PlayedGame]]:
        return play_on_host(game, spec, first, num_games, num_processes, options)

    return LoadedEngine(GameSpec(env.id, game.parameters), record, num_games, play)


def player_engine(
    env: Environment,
    game: GameSpec,
    kind: str,
    player: Player,
    num_games: int,
    options: PlayOptions,
    batch_size: int,
) -> LoadedEngine:
    """Loads an engine that is a player on the device.

    Args:
      env: the game.
      game: its name and parameters.
      kind: the name of the engine, for the record.
      player: the player.
      num_games: number of games.
      options: how the games are played.
      batch_size: number of games at once.
    """
    choose = device_engine(env, player, batch_size)

    def play(first: int) -> Iterator[list[PlayedGame]]:
        return play_on_device(env, choose, first, num_games, batch_size, options)

    record = _record(kind, num_games, options) | {"batch": batch_size, "player": player.about}
    return LoadedEngine(GameSpec(env.id, game.parameters), record, num_games, play)


def _record(kind: str, num_games: int, options: PlayOptions) -> dict[str, Any]:
    return {
        "games": num_games,
        "seed": options.seed,
        "opening_plies": list(options.opening_plies),
        "max_plies": options.max_plies,
        "engine": kind,
        "random_share": options.random_share,
    }


def perfect_engine_player(env: Environment) -> Player:
    """Returns the perfect player of a small game.

    Raises:
      ValueError: if the game cannot be solved.
    """
    if not games.is_solvable(env) and env.id == "connect_four":
        raise UserError("perfect does not support connect_four; choose the engine bitbully")
    return perfect_player(env)


def default_random_share(kind: str | None) -> float:
    """Returns the share of random moves of an engine, unless another one is chosen.

    Perfect players would otherwise play few different games.
    """
    return _RANDOM_SHARE if kind in (PERFECT, BITBULLY) else 0.0


def num_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    # Not every operating system can restrict a process to some of the cores.
    usable = getattr(os, "sched_getaffinity", None)
    return os.cpu_count() or 1 if usable is None else len(usable(0))


def make_games(engine: LoadedEngine, folder: Path) -> None:
    """Lets an engine play the games that the folder lacks, with a progress display."""
    file = folder / GAMES
    done = count_games(file)
    file.touch()
    with showing(Console(stderr=True, highlight=False)) as show:
        if done < engine.num_games:
            for played in engine.play(done):
                append_games(file, engine.game, played)
                done += len(played)
                show("games", done, engine.num_games)
