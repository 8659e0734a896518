"""The whole pipeline: games, the three trained stages and the player, one after another."""

import functools
import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import games
from dualmctx.console import Console
from dualmctx.datasets.batch_feed import uses_symmetries
from dualmctx.datasets.build import Recipe
from dualmctx.datasets.engines import GameSpec, LoadedEngine, load_engine, random_share_of
from dualmctx.datasets.make import make_dataset
from dualmctx.datasets.manifest import MANIFEST, read_manifest
from dualmctx.datasets.self_play import PlayOptions
from dualmctx.datasets.shards import SPLITS
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import folder_of, open_folder
from dualmctx.experiment.runner import locked_run, resume_command
from dualmctx.matches.openings import find_openings
from dualmctx.matches.other_players import exact_player, openspiel_mcts
from dualmctx.matches.player_spec import OPENSPIEL
from dualmctx.matches.players import Player
from dualmctx.pipeline.config import (
    AlphaGoConfig,
    PlayerConfig,
    ReinforceConfig,
    RunConfig,
    SupervisedConfig,
    ValueConfig,
    config_of_stage,
)
from dualmctx.pipeline.options import GamesOptions
from dualmctx.pipeline.parts import alphago_network
from dualmctx.pipeline.player import require_openings
from dualmctx.pipeline.start import (
    ALPHAGO,
    describe_inputs,
    load_inputs,
    plain_record,
    start_stage,
)
from dualmctx.reports.numbers import NONE, show_decimal, show_elo, show_interval, show_share
from dualmctx.reports.table import Table, entry
from dualmctx.runs.folder import (
    CONFIG,
    SUMMARY,
    RunFolder,
    lock_folder,
    read_summary,
)
from dualmctx.types import Environment

GAMES = "games"
"""The name of the first stage, which makes the data set."""
SECONDS = "wall_seconds"
"""The entry of a stage's summary with its seconds, with evals and compilation."""


def run_all(preset: str, config: AlphaGoConfig, warn: Callable[[str], None]) -> int:
    """Runs or resumes the whole pipeline, with its folder locked; see `run_stage`.

    A finished stage is not run again, and a stage in progress is continued.

    Args:
      preset: the preset or the game, for the folder and the records.
      config: the configuration of all stages.
      warn: called with a line about each problem that does not stop the pipeline.

    Raises:
      RunFailed: as `run_stage`, and for bad input.
      KeyboardInterrupt: as `run_stage`, and if it is stopped outside of a stage.
    """
    path = folder_of(preset, config, ALPHAGO)
    with locked_run(path, resume=config.resume):
        env = games.make(config.game, **config.game_parameters)
        engine, inputs = _check(env, config)
        record = plain_record(ALPHAGO, preset, config) | {"inputs": inputs}
        folder = open_folder(path, record, config)
        return _run_steps(preset, config, env, engine, folder, warn)


def _check(env: Environment, config: AlphaGoConfig) -> tuple[LoadedEngine | None, dict[str, Any]]:
    """Checks what a later stage would refuse; returns any engine of games, and input digests."""
    inputs = load_inputs(config, env)
    alphago_network(env, config.network)
    for name in ("supervised", "value"):
        uses_symmetries(env, f"{name}.augment", getattr(config, name).augment)
    plies = config.player.opening_plies
    require_openings(find_openings(env, 1, plies=plies, seed=config.seed), env, plies)
    engine = None if config.dataset is not None else _load_engine(env, config)
    return engine, describe_inputs(config, inputs)


def _load_engine(env: Environment, config: AlphaGoConfig) -> LoadedEngine:
    """Loads the engine that plays the games of the data set."""
    options = config.games
    share = random_share_of(options.engine, options.random_share)
    play = PlayOptions(config.seed, options.opening_plies, share)
    game = GameSpec(config.game, dict(config.game_parameters))
    rebuild = functools.partial(_build_player, game, options)
    player = _build_player(game, options, env)
    return load_engine(env, game, player, options.number, play, rebuild=rebuild)


def _build_player(game: GameSpec, options: GamesOptions, env: Environment | None = None) -> Player:
    env = env or games.make(game.name, **game.parameters)
    is_openspiel = options.engine == OPENSPIEL
    return openspiel_mcts(env, options.simulations) if is_openspiel else exact_player(env)


def steps_of(config: AlphaGoConfig, path: Path) -> dict[str, RunConfig]:
    """Returns the configurations of the stages in order, with folders in that of the pipeline."""

    def step(kind: type[RunConfig], out: str, **inputs: str | None) -> RunConfig:
        resume = Path(out, CONFIG).exists()
        return config_of_stage(config, kind, out=out, resume=resume, **inputs)

    supervised, reinforced, value, player = (
        str(path / x) for x in ("supervised", "reinforced", "value", "player")
    )
    data = config.dataset or str(path / GAMES)
    prior = {"reinforced": reinforced if config.player.prior == "reinforced" else None}
    return {
        "supervised": step(SupervisedConfig, supervised, dataset=data),
        "reinforce": step(ReinforceConfig, reinforced, init_from=supervised),
        "value": step(ValueConfig, value, init_from=reinforced, supervised=supervised),
        "player": step(PlayerConfig, player, supervised=supervised, value=value, **prior),
    }


def _run_steps(
    preset: str,
    config: AlphaGoConfig,
    env: Environment,
    engine: LoadedEngine | None,
    folder: RunFolder,
    warn: Callable[[str], None],
) -> int:
    """Runs the stages that are left; returns the exit code."""
    console, steps = Console(highlight=False), steps_of(config, folder.path)
    data = folder.path / GAMES if config.dataset is None else Path(config.dataset)
    folders = {GAMES: data} | {name: Path(str(x.out)) for name, x in steps.items()}

    def say(stage: str, note: str) -> None:
        number = [*folders].index(stage) + 1
        line = f"stage {number} of {len(folders)}, {stage}: {note}"
        console.print(line, markup=False, soft_wrap=True)

    if (data / MANIFEST).exists():
        say(GAMES, f"the data set is in {data}")
    elif engine is not None:
        noun = "game" if engine.num_games == 1 else "games"
        say(GAMES, f"{engine.num_games:,} {noun} of {config.games.engine}, in {data}")
        _make_games(env, config, engine, data, warn)
    splits = read_manifest(data).splits
    # The splits of a data set of the user were checked at the start.
    if empty := [name for name in SPLITS if not splits.get(name, {}).get("rows", 0)]:
        raise UserError(
            f"games.number is {config.games.number}; these games leave no positions for "
            f"{' and '.join(empty)}: start again in another folder, with more games or larger "
            "shares --games.validation and --games.test"
        )
    for name, step in steps.items():
        if is_finished(folders[name]):
            say(name, f"finished earlier, in {folders[name]}")
            continue
        say(name, f"{'continues' if step.resume else 'starts'} in {folders[name]}")
        code = start_stage(name, preset, step, warn)
        if code:
            return code
    summary = _summarize(f"{preset}, all stages", folders)
    folder.write_json(SUMMARY, summary)
    console.print(stages_table(summary))
    line = f"results in {folder.path}: {SUMMARY}, and a folder for each stage"
    console.print(line, markup=False, soft_wrap=True)
    return 0


def _make_games(
    env: Environment,
    config: AlphaGoConfig,
    engine: LoadedEngine,
    folder: Path,
    report: Callable[[str], None],
) -> None:
    """Makes the data set of the games, or the part of it that is missing."""
    resume, options = (folder / CONFIG).exists(), config.games
    parameters = dict(config.game_parameters)
    recipe = Recipe(config.game, parameters, validation=options.validation, test=options.test)
    with lock_folder(folder, resume=resume):
        try:
            make_dataset(env, recipe, engine, folder, resume=resume, report=report)
        except KeyboardInterrupt:
            message = f"; the games so far are saved; continue with: {resume_command()}"
            raise KeyboardInterrupt(message) from None


def is_finished(folder: Path) -> bool:
    """Returns whether a stage has written its summary; a damaged one is written again."""
    seconds = (read_summary(folder) or {}).get(SECONDS)
    return isinstance(seconds, int | float) and math.isfinite(seconds)


def _summarize(title: str, folders: dict[str, Path]) -> dict[str, Any]:
    """Returns `summary.json`: those of the stages, and the seconds of all but the games."""
    manifest = read_manifest(folders[GAMES])
    number = sum(x["games"] for x in manifest.splits.values())
    made = {"stage": GAMES, "games": number, "positions": manifest.num_positions}
    rows: list[dict[str, Any]] = [
        {"folder": str(folder)} | (made if stage == GAMES else read_summary(folder) or {})
        for stage, folder in folders.items()
    ]
    seconds = sum(row.get(SECONDS, 0) for row in rows)
    return {"title": title, SECONDS: seconds, "stages": rows}


def stages_table(summary: dict[str, Any]) -> Table:
    """Lays out the summary as a table of at most 80 columns."""
    columns = {
        "stage": entry("stage", str),
        "time": _show_time,
        "measure": lambda row: _DESCRIBE[row["stage"]](row),
        "keeps value": _kept,
    }
    table = Table.of(summary["title"], columns, summary["stages"], left=("measure",))
    table.rows.append(("all", _show_time(summary), "", ""))
    return table


def _show_time(row: dict[str, Any]) -> str:
    """Formats a duration, such as 0:12:30."""
    return str(timedelta(seconds=round(row[SECONDS]))) if SECONDS in row else NONE


def _kept(row: dict[str, Any]) -> str:
    """Returns the share of the policy, or of the strongest player of the match."""
    if row["stage"] == "player":
        return show_share(row["players"][0]["keeping"], 1)
    return show_share(row.get("exact/policy_keeping"), 1)


def _describe_supervised(row: dict[str, Any]) -> str:
    names = ("policy", "rollout", "chance")
    policy, rollout, chance = (show_share(row.get(f"test/{x}_top1"), 1) for x in names)
    return f"top-1 {policy} (rollout policy {rollout}, random {chance})"


def _describe_reinforce(row: dict[str, Any]) -> str:
    points, low, high = (show_share(row[f"reinforce/points{x}"], 1) for x in ("", "_low", "_high"))
    return f"{points} of the points against supervised ({low} … {high})"


def _describe_value(row: dict[str, Any]) -> str:
    names = ("test/value_loss", "train/value_loss", "test/constant_loss")
    test, train, constant = (show_decimal(row[x], 3) for x in names)
    return f"error {test} (training {train}, mean value {constant})"


def _describe_player(row: dict[str, Any]) -> str:
    best = row["players"][0]
    return f"highest Elo: {best['name']}, {show_elo(best)} ({show_interval(best)})"


# The measures of each stage in words.
_DESCRIBE: dict[str, Callable[[dict[str, Any]], str]] = {
    GAMES: lambda row: f"{row['games']:,} games, {row['positions']:,} positions",
    "supervised": _describe_supervised,
    "reinforce": _describe_reinforce,
    "value": _describe_value,
    "player": _describe_player,
}
