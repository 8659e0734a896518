"""The engines of `dualmctx dataset --from`, built from the options."""

from dualmctx.commands.dataset_options import HOST_ENGINES, Options
from dualmctx.commands.search_spec import build_search
from dualmctx.datasets.engine_games import GameSpec
from dualmctx.datasets.engines import HostEngineSpec
from dualmctx.datasets.loaded_engine import (
    PERFECT,
    LoadedEngine,
    host_engine,
    perfect_engine_player,
    player_engine,
)
from dualmctx.datasets.self_play import PlayOptions
from dualmctx.errors import UserError
from dualmctx.matches.players import Player, search_player
from dualmctx.runs.saved_network import identity_of, load_trained, model_kwargs_of
from dualmctx.runs.saved_policy import search_record
from dualmctx.types import Environment

_SIMULATIONS = 1000


def load_engine(options: Options, env: Environment) -> LoadedEngine:
    """Loads the engine of the option `--from`.

    Raises:
      ValueError: if the engine is not installed, does not support the game, or cannot be loaded.
    """
    kind, number = str(options.engine), options.games
    play = PlayOptions(
        options.seed, options.opening_plies, options.share_of_random_moves, options.max_plies
    )
    game = GameSpec(options.game, dict(options.game_parameters))
    if kind not in HOST_ENGINES:
        player = perfect_engine_player(env) if kind == PERFECT else _network(options, env)
        return player_engine(env, game, kind, player, number, play, options.batch)
    spec = HostEngineSpec(
        kind=kind,
        simulations=options.simulations or _SIMULATIONS,
        command=options.gtp_command or "",
        timeout=options.gtp_timeout,
    )
    return host_engine(env, game, spec, number, play, options.num_processes)


def _network(options: Options, env: Environment) -> Player:
    trained = load_trained(str(options.checkpoint), game=options.game, network=options.network)
    parameters = trained.record["game_parameters"]
    if trained.env.id != env.id or trained.env.num_actions != env.num_actions:
        raise UserError(f"{options.checkpoint} plays {trained.env.id}, not {env.id}")
    if parameters != options.game_parameters:
        given = " ".join(f"{name} {value}" for name, value in parameters.items()) or "no parameters"
        raise UserError(f"{options.checkpoint} plays with {given}; use the same --game-parameters")
    policy = build_search(trained.record, options.variant, options.simulations).for_evaluation()
    about = identity_of(trained) | {"search": search_record(policy)}
    parts = (env, trained.network, trained.params, policy)
    return search_player("network", *parts, about=about, **model_kwargs_of(trained.record))
