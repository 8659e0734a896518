"""The engines of `dualmctx dataset --from`: built from the options, and let play."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

import games
from dualmctx.commands.dataset_options import HOST_ENGINES, Options
from dualmctx.commands.search_spec import build_search
from dualmctx.datasets.engine_games import (
    GAMES,
    GameSpec,
    append_games,
    count_games,
    play_on_device,
    play_on_host,
)
from dualmctx.datasets.engines import HostEngineSpec, device_engine
from dualmctx.datasets.self_play import PlayedGame, PlayOptions
from dualmctx.matches.players import Player, perfect_player, search_player
from dualmctx.runs.folder import to_dict
from dualmctx.runs.progress import showing
from dualmctx.runs.saved_network import digest_of, load_trained, model_kwargs_of
from dualmctx.types import Environment

_SIMULATIONS = 1000


class LoadedEngine(NamedTuple):
    """An engine that is ready to play.

    Attributes:
      record: what determines its games, as JSON values.
      play: `(first) -> batches of games`, from the game with that number on.
    """

    record: dict[str, Any]
    play: Callable[[int], Iterator[list[PlayedGame]]]


def load_engine(options: Options, env: Environment) -> LoadedEngine:
    """Loads the engine of the option `--from`.

    Raises:
      ValueError: if the engine is not installed, does not support the game, or cannot be loaded.
    """
    play_options = PlayOptions(
        options.seed, options.opening_plies, options.share_of_random_moves, options.max_plies
    )
    names = ("games", "seed", "opening_plies", "max_plies")
    record = {name: getattr(options, name) for name in names}
    record |= {
        "engine": options.engine,
        "opening_plies": list(options.opening_plies),
        "random_share": play_options.random_share,
    }
    if options.engine in HOST_ENGINES:
        return _host_engine(options, env, play_options, record)
    player = _perfect(env) if options.engine == "perfect" else _network(options, env)
    choose = device_engine(env, player, options.batch)

    def play(first: int) -> Iterator[list[PlayedGame]]:
        return play_on_device(env, choose, first, options.games, options.batch, play_options)

    return LoadedEngine(record | {"batch": options.batch, "player": player.about}, play)


def _host_engine(
    options: Options, env: Environment, play_options: PlayOptions, record: dict[str, Any]
) -> LoadedEngine:
    spec = HostEngineSpec(
        kind=str(options.engine),
        simulations=options.simulations or _SIMULATIONS,
        command=options.gtp_command or "",
        timeout=options.gtp_timeout,
    )
    spec.check(env)
    game = GameSpec(options.game, dict(options.game_parameters))

    def play(first: int) -> Iterator[list[PlayedGame]]:
        return play_on_host(game, spec, first, options.games, options.num_processes, play_options)

    if spec.kind == "openspiel-mcts":
        record |= {"simulations": spec.simulations}
    return LoadedEngine(record | ({"command": spec.command} if spec.command else {}), play)


def _perfect(env: Environment) -> Player:
    if not games.is_solvable(env) and env.id == "connect_four":
        raise ValueError("perfect does not support connect_four; use --from bitbully")
    return perfect_player(env)


def _network(options: Options, env: Environment) -> Player:
    trained = load_trained(str(options.checkpoint), game=options.game)
    parameters = trained.record["game_parameters"]
    if trained.env.id != env.id or trained.env.num_actions != env.num_actions:
        raise ValueError(f"{options.checkpoint} plays {trained.env.id}, not {env.id}")
    if parameters != options.game_parameters:
        given = " ".join(f"{name} {value}" for name, value in parameters.items()) or "no parameters"
        raise ValueError(f"{options.checkpoint} plays with {given}; use the same --game-parameters")
    policy = build_search(trained.record, options.variant, options.simulations).for_evaluation()
    about = {
        "network": digest_of(trained.params),
        "iteration": trained.iteration,
        "search": {"policy": type(policy).__name__} | to_dict(policy),
    }
    parts = (env, trained.network, trained.params, policy)
    return search_player("network", *parts, about=about, **model_kwargs_of(trained.record))


def make_games(options: Options, env: Environment, engine: LoadedEngine, folder: Path) -> None:
    """Lets an engine play the games that the folder lacks, with a progress display."""
    file = folder / GAMES
    done, game = count_games(file), GameSpec(env.id, options.game_parameters)
    file.touch()
    with showing(Console(stderr=True, highlight=False)) as show:
        if done < options.games:
            for played in engine.play(done):
                append_games(file, game, played)
                done += len(played)
                show("games", done, options.games)
