"""The whole pipeline: games, the three trained stages and the player, one after another."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import games
from dualmctx.console import Console
from dualmctx.datasets.engines import LoadedEngine
from dualmctx.datasets.manifest import MANIFEST
from dualmctx.errors import UserError
from dualmctx.experiment.messages import describe_refusal
from dualmctx.experiment.runner import RunFailed
from dualmctx.matches.openings import find_openings
from dualmctx.pipeline.config import (
    AlphaGoConfig,
    PlayerConfig,
    ReinforceConfig,
    RunConfig,
    SupervisedConfig,
    ValueConfig,
    config_of_stage,
)
from dualmctx.pipeline.parts import alphago_network
from dualmctx.pipeline.player.match import require_openings
from dualmctx.pipeline.stage import ALPHAGO
from dualmctx.pipeline.start import (
    describe_inputs,
    folder_of,
    load_inputs,
    open_folder,
    plain_record,
    start_stage,
)
from dualmctx.pipeline.whole.first_games import (
    load_first_engine,
    make_first_games,
    require_splits,
)
from dualmctx.pipeline.whole.report import (
    GAMES,
    StageFolder,
    draw_stages,
    is_finished,
    stages_table,
    summarize_stages,
)
from dualmctx.runs.folder import (
    CONFIG,
    SUMMARY,
    RunFolder,
    lock_folder,
)
from dualmctx.training.divergence import FAILURES
from dualmctx.types import Environment

PICTURE = "stages.png"
"""The picture of all stages."""


def run_all(preset: str, config: AlphaGoConfig, warn: Callable[[str], None]) -> int:
    """Runs or resumes the whole pipeline, with its folder locked.

    A finished stage is not run again, and a stage in progress is continued.

    Args:
      preset: the preset or the game, for the folder and the records.
      config: the configuration of all stages.
      warn: called with a line about each problem that does not stop the pipeline.

    Returns:
      0 at the end, or 130 if Ctrl-C or SIGTERM stopped a stage after a checkpoint.

    Raises:
      RunFailed: for bad input, if memory, the disk or a device fails, or if training diverges.
      KeyboardInterrupt: if it is stopped outside of a stage, or by a second signal. Its argument
        says how to continue.
    """
    path = folder_of(ALPHAGO, preset, config)
    try:
        with lock_folder(path, resume=config.resume):
            env = games.make(config.game, **config.game_parameters)
            engine, inputs = check_pipeline(env, config)
            record = plain_record(ALPHAGO, preset, config) | {"inputs": inputs}
            folder = open_folder(path, record, resume=config.resume)
            return _run_steps(preset, config, env, engine, folder, warn)
    except (UserError, *FAILURES) as error:
        raise RunFailed(describe_refusal(error, path, resume=config.resume)) from error


def check_pipeline(
    env: Environment, config: AlphaGoConfig
) -> tuple[LoadedEngine | None, dict[str, Any]]:
    """Checks inputs and options at the start that a later stage would refuse.

    Returns:
      The engine of the games, `None` if the data set is given, and the digests of the inputs.

    Raises:
      ValueError: if the data set or the opponent cannot be used, the engine does not support the
        game, the network cannot be made, or the openings of the match are too long.
    """
    inputs = load_inputs(config, env)
    alphago_network(env, config.network)
    plies = config.player.opening_plies
    require_openings(find_openings(env, 1, plies=plies, seed=config.seed), env, plies)
    engine = None if config.dataset is not None else load_first_engine(env, config)
    return engine, describe_inputs(config, inputs)


def steps_of(config: AlphaGoConfig, path: Path) -> dict[str, RunConfig]:
    """Returns the configurations of the stages in order, by name, each with its folder and inputs.

    Their folders are in that of the pipeline, `path`.
    """
    supervised, reinforced, value, player = (
        str(path / x) for x in ("supervised", "reinforced", "value", "player")
    )
    data = config.dataset or str(path / GAMES)
    prior = reinforced if config.player.prior == "reinforced" else None
    inputs: dict[str, tuple[type[RunConfig], str, dict[str, str | None]]] = {
        "supervised": (SupervisedConfig, supervised, {"dataset": data}),
        "reinforce": (ReinforceConfig, reinforced, {"init_from": supervised}),
        "value": (ValueConfig, value, {"init_from": reinforced, "supervised": supervised}),
        "player": (
            PlayerConfig,
            player,
            {"supervised": supervised, "value": value, "reinforced": prior}
            | {"opponent": config.opponent},
        ),
    }
    return {
        name: config_of_stage(
            config, kind, out=out, resume=(Path(out) / CONFIG).exists(), **sources
        )
        for name, (kind, out, sources) in inputs.items()
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
    folders = [
        StageFolder(GAMES, data),
        *(StageFolder(name, Path(str(x.out))) for name, x in steps.items()),
    ]

    def say(stage: str, note: str) -> None:
        number = [x.stage for x in folders].index(stage) + 1
        line = f"stage {number} of {len(folders)}, {stage}: {note}"
        console.print(line, markup=False, soft_wrap=True)

    if (data / MANIFEST).exists():
        say(GAMES, f"the data set is in {data}")
    elif engine is not None:
        noun = "game" if engine.num_games == 1 else "games"
        say(GAMES, f"{engine.num_games:,} {noun} of {config.games.engine}, in {data}")
        make_first_games(env, config, engine, data, warn)
    if engine is not None:
        require_splits(data, config.games.number)
    for (name, step), (_, path) in zip(steps.items(), folders[1:], strict=True):
        if is_finished(path):
            say(name, f"finished earlier, in {path}")
            continue
        say(name, f"{'continues' if step.resume else 'starts'} in {path}")
        code = start_stage(name, preset, step, warn)
        if code:
            return code
    _finish(f"{preset}, all stages", folders, folder, console)
    return 0


def _finish(title: str, folders: list[StageFolder], folder: RunFolder, console: Console) -> None:
    """Writes the summary and the picture, and prints the table."""
    summary = summarize_stages(title, folders)
    draw_stages(summary, folders, folder.path / PICTURE)
    folder.write_json(SUMMARY, summary)
    console.print(stages_table(summary))
    line = f"results in {folder.path}: {SUMMARY}, {PICTURE}, and a folder for each stage"
    console.print(line, markup=False, soft_wrap=True)
