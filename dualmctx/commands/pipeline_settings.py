"""The settings of a stage: from a preset, a file, the run's own record, and flags.

Flags take precedence over the file, and the file over the preset. A run that is resumed starts from
its own record instead of a preset.
"""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.commands.flags import parse_flags, take_flag
from dualmctx.commands.game_flags import run_name
from dualmctx.commands.settings import Settings, apply_settings
from dualmctx.commands.train_request import (
    AUTO,
    RESUME,
    Request,
    read_request,
    require_named_code,
    resumed_folder,
)
from dualmctx.errors import UserError
from dualmctx.import_path import is_import_path
from dualmctx.pipeline.config import AlphaGoConfig, RunConfig, config_of_stage
from dualmctx.pipeline.presets import pipeline_preset
from dualmctx.pipeline.registry import ALL_STAGES, ALPHAGO, STAGES, StageKind
from dualmctx.pipeline.start import PIPELINE
from dualmctx.runs import folder
from dualmctx.training.presets import PRESETS

FLAG = "--pipeline"
"""The flag that names a stage."""
KINDS: dict[str, StageKind] = {**STAGES, ALPHAGO: ALL_STAGES}
"""The stages, and the whole pipeline."""
# Entries of `config.json` that follow from the others.
_DERIVED = ("search", "architecture", "inputs")


class Settled(NamedTuple):
    """The settings of a command.

    Attributes:
      stage: the stage, or "alphago" for all of them.
      preset: the preset, or the name of the game.
      config: the configuration, of the stage's class.
    """

    stage: str
    preset: str
    config: RunConfig


def settle_stage(arguments: list[str], program: str) -> Settled:
    """Combines all settings of a command with `--pipeline`, or that resumes a stage.

    Args:
      arguments: the arguments after the program's name.
      program: the program's name, for `--help`.

    Raises:
      ValueError: if a setting is invalid.
      SystemExit: with code 0, after `--help`.
    """
    named, rest = take_flag(arguments, FLAG)
    request = read_request(rest)
    if request.variant is not None:
        raise UserError(f"--search.variant does not apply with {FLAG}; leave it out")
    stage = _one_of(named, request.settings.pop(PIPELINE, None), request.file)
    path = _resumed(request, stage)
    saved = None if path is None else _read_stage(path, request.resume == AUTO)
    if path is None or saved is None:
        kind = _kind_of(stage)
        preset, config = _new(request, kind)
    else:
        stage = _check_resumed(path, saved, stage, request.preset)
        kind, preset = _kind_of(stage), str(saved["preset"])
        config = _with_file(kind.config(), saved, str(path / folder.CONFIG))
    config = _with_file(config, request.settings, request.file)
    about = f"AlphaGo's pipeline, {stage}: {kind.summary}. docs/pipeline.md describes the stages."
    config = parse_flags(config, request.flags, f"{program} {preset} {FLAG} {stage}", about)
    if saved is not None:
        require_named_code(request, config.game)
    if path is not None:
        config = dataclasses.replace(config, out=str(path), resume=saved is not None)
    return Settled(str(stage), preset, config)


def stage_of_folder(arguments: list[str]) -> bool:
    """Returns whether arguments without `--pipeline` are for a stage.

    They are if the run to resume, or the file of settings, is of a stage.
    """
    if not any(x.split("=")[0] in (RESUME, "--config") for x in arguments):
        return False
    try:
        request = read_request(arguments)
        path = resumed_folder(request)
        if PIPELINE in request.settings:
            return True
        if path is None or not (path / folder.CONFIG).exists():
            return False
        return PIPELINE in folder.read_config(path)
    except UserError:
        # The command of self-play reports the error.
        return False


def _one_of(named: str | None, in_file: Any, file: str) -> str | None:
    """Returns the stage that the flag or the file names."""
    if None not in (named, in_file) and named != in_file:
        raise UserError(
            f"{file}: pipeline is {in_file!r}, but the command names {named}; leave one of them out"
        )
    return named if in_file is None else str(in_file)


def _kind_of(stage: str | None) -> StageKind:
    if stage not in KINDS:
        shown = f"is {stage!r}" if stage and not stage.startswith("-") else "has no value"
        raise UserError(f"{FLAG} {shown}; it must be one of {', '.join(KINDS)}")
    return KINDS[stage]


def _resumed(request: Request, stage: str | None) -> Path | None:
    """Returns the folder of the run to resume; `None` for a new run.

    Raises:
      ValueError: see `resumed_folder`.
    """
    if request.resume is None:
        return None
    if stage is not None:
        name = request.preset or _game_of(request)
        request = request._replace(preset=name and f"{run_name(name)}-{stage}")
    return resumed_folder(request)


def _read_stage(path: Path, is_auto: bool) -> Settings | None:
    """Reads the configuration of the stage to resume; `None` for a new run."""
    if is_auto and not (path / folder.CONFIG).exists():
        return None
    saved = folder.read_config(path)
    if not saved.keys() >= {PIPELINE, "preset"}:
        raise UserError(
            f"{path} is not the folder of a stage of the pipeline; leave out {FLAG} to continue it"
        )
    return saved


def _check_resumed(path: Path, saved: Settings, stage: str | None, preset: str | None) -> str:
    found = str(saved[PIPELINE])
    if found not in KINDS:
        raise UserError(
            f"{path / folder.CONFIG}: pipeline is {found!r}; it must be one of {', '.join(KINDS)}"
        )
    if stage not in (None, found):
        raise UserError(f"{path} is a run of {FLAG} {found}, not of {stage}; leave {FLAG} out")
    if preset not in (None, saved["preset"]):
        raise UserError(f"{path} is a run of {saved['preset']}, not of {preset}; leave it out")
    return found


def _game_of(request: Request) -> str:
    return take_flag(request.flags, "--game")[0] or str(request.settings.get("game", ""))


def _new(request: Request, kind: StageKind) -> tuple[str, RunConfig]:
    """Returns the name and the configuration that the file and the flags of a new run change."""
    game = _game_of(request)
    name = request.preset or (run_name(game) if game else "")
    base = None if is_import_path(game) else pipeline_preset(name)
    if base is None and game:
        base = AlphaGoConfig(game=game)
    if base is None and {"-h", "--help"} & {*request.flags}:
        name, base = "GAME", AlphaGoConfig()
    if base is None:
        problem = f"there is no preset {name!r}" if name else "there is no game"
        raise UserError(
            f"{problem}; name one of {', '.join(PRESETS)}, a game with --game, or a run with "
            f"{RESUME} FOLDER"
        )
    is_whole = kind.config is AlphaGoConfig
    return name, base if is_whole else config_of_stage(base, kind.config)


def _with_file(config: RunConfig, settings: Settings, file: str) -> RunConfig:
    """Applies the settings in a file, perhaps the `config.json` of a run."""
    if "architecture" in settings:
        # The network of a run follows from its options or its inputs.
        known = {field.name for field in dataclasses.fields(config)}
        derived = {*_DERIVED, PIPELINE, "preset"} | ({"network"} - known)
        settings = {name: x for name, x in settings.items() if name not in derived}
        network = settings.get("network")
        if isinstance(network, dict):
            kept = {name: x for name, x in network.items() if name != "num_heads"}
            settings["network"] = kept
    settings = {
        name: x for name, x in settings.items() if name not in (PIPELINE, "preset", "inputs")
    }
    return apply_settings(config, settings, file)
