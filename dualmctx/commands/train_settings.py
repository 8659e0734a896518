"""The settings of a run of self-play or of a stage of the pipeline.

They come from a preset, a file and flags: flags take precedence over the file, and the file over
the preset. A run that is resumed starts from its own record instead of a preset.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any, NamedTuple

import games
from dualmctx.commands.flags import CONFIG, parse_flags
from dualmctx.commands.settings import Settings, apply_settings, toml_lines
from dualmctx.commands.train_request import (
    ABOUT_NETWORK,
    COMPLETE,
    KINDS,
    RESUME,
    NamedOptions,
    Request,
    resumed_folder,
    run_name,
)
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import record_of
from dualmctx.import_path import is_import_path, require_named
from dualmctx.pipeline.config import AlphaGoConfig, RunConfig, config_of_stage, pipeline_preset
from dualmctx.pipeline.start import PIPELINE
from dualmctx.policies import REGISTRY, paper_setting, variant_of
from dualmctx.runs import folder
from dualmctx.runs.folder import fixed_settings
from dualmctx.training.config import Config
from dualmctx.training.neutral_preset import describe_neutral_preset, measure_game, neutral_preset
from dualmctx.training.presets import PRESETS
from dualmctx.typed_values import decode

# Entries of `config.json` that are not settings, or follow from them.
_DERIVED = (PIPELINE, "preset", "architecture", "inputs")

_ABOUT_PAPER = (
    "--search.variant dual --search.paper starts from the setting of the Dual MCTS paper, which "
    "other flags of the search change."
)


class Settled(NamedTuple):
    """The settings of a command.

    Attributes:
      preset: the preset, or the name of the game.
      config: the configuration: a `Config` for self-play, or that of the stage.
      stage: the stage, or "alphago" for all of them; `None` for self-play.
    """

    preset: str
    config: Any
    stage: str | None = None


def settle(request: Request, saved: Settings | None, program: str) -> Settled:
    """Combines all settings of a run.

    Args:
      request: the command line.
      saved: the `config.json` of the run to resume; `None` for a new run.
      program: the program's name, for `--help`.

    Raises:
      UserError: if a setting is invalid.
      SystemExit: with code 0, after `--help`.
    """
    path, stage = resumed_folder(request), request.stage
    if saved is None:
        preset, base = _new(request, program)
    else:
        stage, preset = saved.get(PIPELINE), str(saved["preset"])
        base = _of_record(saved, stage, str(Path(path or "", folder.CONFIG)))
    config = _with_file(base, request.settings, request.file)
    variant, paper = request.early.variant, request.early.paper
    if stage is not None and (variant or paper):
        name = "variant" if variant else "paper"
        raise UserError(f"--search.{name} does not apply with --{PIPELINE}; leave it out")
    config = _with_search(config, variant, paper)
    config = parse_flags(config, request.flags, *_describe(stage, preset, program))
    if path is not None:
        config = dataclasses.replace(config, out=str(path), resume=saved is not None)
    if saved is not None:
        # The folder may come from a stranger, so the command itself names the code of others.
        network, named = None if stage else config.network.factory, request.named
        for kind, name, given in (
            ("game", config.game, named.game),
            ("network", network, named.factory),
        ):
            require_named(name, (given,), path or Path(), kind, f"--{kind} {name}")
        config = config if stage else _as_resumed(config, base, preset)
    return Settled(preset, config, stage)


def _as_resumed(config: Config, saved: Config, preset: str) -> Config:
    """Checks the settings of a resumed run of self-play.

    A run that gets another number of iterations keeps its learning rates.

    Raises:
      UserError: if a setting differs that must not change. The folder is checked again when it is
        opened; this check is before any computation.
    """
    if config.schedule_iterations is None and config.num_iterations != saved.num_iterations:
        config = dataclasses.replace(config, schedule_iterations=saved.num_iterations)
    records = (record_of(preset, saved), record_of(preset, config))
    before, after = map(fixed_settings, records)
    folder.require_same_settings(Path(config.out or ""), before, after)
    return config


def _new(request: Request, program: str) -> tuple[str, Any]:
    """Returns the name and the configuration that the file and the flags of a new run change."""
    if request.stage is not None:
        return _new_stage(request, KINDS[request.stage].config)
    name, game = request.preset, request.named.game
    if name in PRESETS:
        return name, PRESETS[name]
    if request.file and request.settings.keys() >= COMPLETE:
        return name or run_name(game), Config()
    if name is not None:
        raise UserError(
            f"there is no preset {name!r}; the presets are {', '.join(PRESETS)}; other games are "
            "named with --game"
        )
    if not game:
        raise UserError(
            f"there is no preset; name one of {', '.join(PRESETS)}, or a game with --game, a file "
            f"with {CONFIG}, or a run with {RESUME} FOLDER"
        )
    name = run_name(game)
    if name in PRESETS and not is_import_path(game):
        return name, PRESETS[name]
    return name, _neutral(request.named, program)


def _neutral(given: NamedOptions, program: str) -> Config:
    """Returns a preset that follows from random games, and describes it on standard error.

    Raises:
      UserError: if the game cannot be built, or the run has several processes: these must join
        before any computation.
    """
    if given.coordinator is not None:
        raise UserError(
            f"{given.game} has no preset, and a neutral one needs random games, which cannot be "
            "played before the processes of --coordinator have joined; name a preset, and --game "
            "with its values"
        )
    require_backend(program)
    size = measure_game(games.make(given.game, **given.game_parameters))
    config = neutral_preset(given.game, size)
    text = describe_neutral_preset(config, size, has_network=given.factory is None)
    print(f"{program}: {text}", file=sys.stderr)
    return config


def _new_stage(request: Request, kind: type[RunConfig]) -> tuple[str, RunConfig]:
    game = request.named.game
    name = request.preset or run_name(game)
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
    return name, base if kind is AlphaGoConfig else config_of_stage(base, kind)


def _of_record(saved: Settings, stage: str | None, file: str) -> Any:
    """Returns the configuration of the run to resume."""
    if stage is None:
        return _with_file(Config(), saved, file)
    if stage not in KINDS:
        known = ", ".join(KINDS)
        raise UserError(f"{file}: {PIPELINE} is {stage!r}; it must be one of {known}")
    return _with_file(KINDS[stage].config(), saved, file)


def _with_file(config: Any, settings: Settings, file: str) -> Any:
    """Applies the settings in a file, which may be the `config.json` of a run."""
    known = {field.name for field in dataclasses.fields(config)}
    # The search and the network of a stage follow from its options or its inputs.
    derived = {"search", "network"} - known if "architecture" in settings else set()
    settings = {x: y for x, y in settings.items() if x not in {*_DERIVED, *derived}}
    if isinstance(settings.get("network"), dict):
        network = settings["network"].items()
        settings["network"] = {name: x for name, x in network if name != "num_heads"}
    if isinstance(settings.get("search"), dict) and isinstance(config, Config):
        search = dict(settings["search"])
        settings["search"], variant = search, search.pop("variant", None)
        is_paper = decode(f"{file}: search.paper", search.pop("paper", False), bool)
        config = _with_search(config, variant, is_paper, f"{file}: ")
    return apply_settings(config, settings, file)


def _with_search(config: Any, variant: Any, is_paper: bool, prefix: str = "") -> Any:
    """Returns the configuration with another search, with its own options or those of its paper.

    Args:
      config: the configuration. If it has the variant already, its options are kept.
      variant: the name of the variant; `None` for that of the configuration.
      is_paper: whether the options are those of the paper.
      prefix: the beginning of messages.

    Raises:
      UserError: if there is no such variant, or it has no such setting.
    """
    if variant is not None and (not isinstance(variant, str) or variant not in REGISTRY):
        known = ", ".join(REGISTRY)
        raise UserError(f"{prefix}there is no search variant {variant!r}; the variants are {known}")
    if is_paper:
        try:
            search = paper_setting(variant or variant_of(config.search))
        except UserError as error:
            raise UserError(f"{prefix}{error}; choose it by search.variant") from None
        return dataclasses.replace(config, search=search)
    if variant is None or variant == variant_of(config.search):
        return config
    return dataclasses.replace(config, search=REGISTRY[variant].policy())


def _describe(stage: str | None, preset: str, program: str) -> tuple[str, str]:
    """Returns the program's name and its description for `--help`."""
    if stage is not None:
        about = f"AlphaGo's pipeline, {stage}: {KINDS[stage].summary}."
        return f"{program} {preset} --{PIPELINE} {stage}", f"{about} docs/pipeline.md has more."
    variants = "; ".join(f"{name} ({row.summary})" for name, row in REGISTRY.items())
    about = f"Trains a network with the preset {preset}. --search.variant NAME chooses the search: "
    return f"{program} {preset}", f"{about}{variants}. {_ABOUT_PAPER} {ABOUT_NETWORK}"


def to_toml(preset: str, config: Any, stage: str | None = None) -> str:
    """Returns all settings of a run as TOML; `dualmctx train --config` reads the same ones back.

    Settings of the run that have no value, such as `wandb`, are left out: no preset has one. The
    entry `resume` is left out, as it is a flag only.

    Args:
      preset: the name of the preset.
      config: the configuration.
      stage: the stage of the pipeline; `None` for self-play.
    """
    settings = {PIPELINE: stage, "preset": preset} | dataclasses.asdict(config)
    settings = {name: x for name, x in settings.items() if x is not None and name != "resume"}
    if stage is None:
        settings["search"] = {"variant": variant_of(config.search)} | settings["search"]
    return "\n".join(toml_lines(settings)) + "\n"
