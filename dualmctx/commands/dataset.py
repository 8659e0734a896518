"""`dualmctx dataset GAME FILE ... --out FOLDER`: makes a data set of positions from games."""

import dataclasses
import shlex
import sys
from pathlib import Path

import games
from dualmctx.commands.dataset_options import DESCRIPTION, HOST_ENGINES, PROGRAM, Options
from dualmctx.commands.dataset_table import dataset_table, describe_games, describe_moves
from dualmctx.commands.flags import parse_flags
from dualmctx.commands.search_spec import build_search
from dualmctx.console import Console
from dualmctx.datasets.engine_games import GameSpec
from dualmctx.datasets.engines import HostEngineSpec
from dualmctx.datasets.loaded_engine import (
    PERFECT,
    LoadedEngine,
    host_engine,
    perfect_engine_player,
    player_engine,
)
from dualmctx.datasets.make import Recipe, make_dataset
from dualmctx.datasets.manifest import MANIFEST, Manifest
from dualmctx.datasets.records import open_records
from dualmctx.datasets.self_play import PlayOptions
from dualmctx.datasets.state import BAD_GAMES
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.matches.players import Player, search_player
from dualmctx.runs.folder import lock_folder
from dualmctx.runs.saved_network import identity_of, load_trained, model_kwargs_of
from dualmctx.runs.saved_policy import search_record
from dualmctx.types import Environment

_SIMULATIONS = 1000


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
