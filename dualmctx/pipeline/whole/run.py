"""The whole pipeline: games, the three trained stages and the player, one after another."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import games
from dualmctx.console import Console
from dualmctx.datasets.loaded_engine import LoadedEngine
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
from dualmctx.pipeline.inputs import describe_inputs, load_inputs
from dualmctx.pipeline.parts import alphago_network
from dualmctx.pipeline.player.openings import require_openings
from dualmctx.pipeline.registry import ALPHAGO
from dualmctx.pipeline.start import folder_of, plain_record, start_stage, with_saved_paths
from dualmctx.pipeline.whole.first_games import (
    load_engine,
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
    create_run,
    lock_folder,
    read_config,
    reopen_run,
)
from dualmctx.training.divergence import FAILURES
from dualmctx.types import Environment

PICTURE = "stages.png"
"""The picture of all stages."""


class Step(NamedTuple):
    """A stage that trains or plays.

    Attributes:
      stage: its name, a key of `STAGES`.
      folder: its folder.
      config: its configuration, with this folder and its inputs.
    """

    stage: str
    folder: Path
    config: RunConfig


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
            folder = _reopen(path, record) if config.resume else create_run(path, record)
            return _run_steps(preset, config, env, engine, folder, warn)
    except (UserError, *FAILURES) as error:
        raise RunFailed(describe_refusal(error, path, resume=config.resume)) from error


def _reopen(path: Path, record: dict[str, Any]) -> RunFolder:
    """Opens the folder of a pipeline to resume it; its inputs may have been moved."""
    return reopen_run(path, with_saved_paths(record, read_config(path)))


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
    engine = None if config.dataset is not None else load_engine(env, config)
    return engine, describe_inputs(config, inputs)


def steps_of(config: AlphaGoConfig, path: Path) -> list[Step]:
    """Returns the stages in order, each with its configuration.

    Args:
      config: the configuration of the pipeline.
      path: its folder.
    """
    supervised, reinforced, value = (path / x for x in ("supervised", "reinforced", "value"))
    data = config.dataset or str(path / GAMES)
    is_reinforced = config.player.prior == "reinforced"

    def of(kind: type[RunConfig], out: Path, **inputs: str | None) -> RunConfig:
        return config_of_stage(config, kind, out=str(out), resume=_is_started(out), **inputs)

    return [
        Step("supervised", supervised, of(SupervisedConfig, supervised, dataset=data)),
        Step("reinforce", reinforced, of(ReinforceConfig, reinforced, init_from=str(supervised))),
        Step(
            "value",
            value,
            of(ValueConfig, value, init_from=str(reinforced), supervised=str(supervised)),
        ),
        Step(
            "player",
            path / "player",
            of(
                PlayerConfig,
                path / "player",
                supervised=str(supervised),
                value=str(value),
                reinforced=str(reinforced) if is_reinforced else None,
                opponent=config.opponent,
            ),
        ),
    ]


def _is_started(folder: Path) -> bool:
    return (folder / CONFIG).exists()


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
    folders = [StageFolder(GAMES, data), *(StageFolder(x.stage, x.folder) for x in steps)]

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
    for step in steps:
        if is_finished(step.folder):
            say(step.stage, f"finished earlier, in {step.folder}")
            continue
        verb = "continues" if step.config.resume else "starts"
        say(step.stage, f"{verb} in {step.folder}")
        code = start_stage(step.stage, preset, step.config, warn)
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
