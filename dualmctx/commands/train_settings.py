"""The settings of a training run: from a preset, a file, the run's own record, and flags.

Flags take precedence over the file, and the file over the preset. A run that is resumed starts from
its own record instead of a preset.
"""

import dataclasses
from pathlib import Path
from typing import Any

from dualmctx.commands.flags import CONFIG, parse_flags
from dualmctx.commands.game_flags import GameFlags, preset_of_game, run_name
from dualmctx.commands.network_flag import DESCRIPTION as ABOUT_NETWORK
from dualmctx.commands.settings import Settings, apply_settings
from dualmctx.commands.train_request import (
    COMPLETE,
    RESUME,
    Request,
    require_named_code,
    resumed_folder,
)
from dualmctx.errors import UserError
from dualmctx.experiment.run_record import record_of
from dualmctx.policies import REGISTRY
from dualmctx.policies.names import variant_of
from dualmctx.runs import folder
from dualmctx.runs.fixed_settings import fixed_settings
from dualmctx.training.config import Config
from dualmctx.training.presets import PRESETS


def settle(request: Request, saved: Settings | None, program: str) -> tuple[str, Config]:
    """Combines all settings of a run.

    Args:
      request: the command line.
      saved: the `config.json` of the run to resume; `None` for a new run.
      program: the program's name, for `--help`.

    Returns:
      The preset's name and the configuration.

    Raises:
      ValueError: if a setting is invalid.
      SystemExit: with code 0, after `--help`.
    """
    name, base = _default(request, program) if saved is None else _resumed_default(request, saved)
    config = _with_settings(base, request.settings, request.file)
    if request.variant is not None:
        config = with_variant(config, request.variant)
    about = f"{_describe_variants()} {ABOUT_NETWORK}"
    description = f"Trains a network with the preset {name}. {about}"
    config = parse_flags(config, request.flags, f"{program} {name}", description)
    if request.resume is not None:
        config = dataclasses.replace(config, out=str(resumed_folder(request)))
    if saved is None:
        return name, config
    require_named_code(request, config.game, config.network.factory)
    config = _as_resumed(config, base)
    # The folder is checked again when it is opened; this check is before any computation.
    records = (record_of(str(saved["preset"]), base), record_of(name, config))
    before, after = (folder.flatten(fixed_settings(record)) for record in records)
    folder.require_same_settings(Path(config.out or ""), before, after)
    return name, config


def _as_resumed(config: Config, saved: Config) -> Config:
    """Keeps the learning rates of a run that gets another number of iterations."""
    schedule = config.schedule_iterations
    if schedule is None and config.num_iterations != saved.num_iterations:
        schedule = saved.num_iterations
    return dataclasses.replace(config, resume=True, schedule_iterations=schedule)


def _default(request: Request, program: str) -> tuple[str, Config]:
    """Returns the name and the configuration that the file and the flags of a new run change."""
    name, presets = request.preset, ", ".join(PRESETS)
    if name in PRESETS:
        return name, PRESETS[name]
    if request.file and request.settings.keys() >= COMPLETE:
        return name or run_name(str(request.settings["game"])), Config()
    if name is not None:
        raise UserError(
            f"there is no preset {name!r}; the presets are {presets}; other games are named with "
            "--game"
        )
    fields = (field.name for field in dataclasses.fields(GameFlags))
    in_file = {x: request.settings[x] for x in fields if x in request.settings}
    game = apply_settings(GameFlags(), in_file, request.file)
    preset = preset_of_game(request.flags, program, game)
    if preset is not None:
        return preset
    raise UserError(
        f"there is no preset; name one of {presets}, or a game with --game, a file with "
        f"{CONFIG}, or a run with {RESUME} FOLDER"
    )


def _resumed_default(request: Request, saved: Settings) -> tuple[str, Config]:
    path = resumed_folder(request)
    recorded = str(saved["preset"])
    name = recorded if request.preset is None else request.preset
    if name not in (recorded, *PRESETS):
        raise UserError(f"there is no preset {name!r}; the run in {path} has {recorded}")
    settings = {x: y for x, y in saved.items() if x != "preset"}
    # Runs of early versions do not name their variant.
    early = PRESETS[name] if name in PRESETS else Config()
    return name, _with_settings(early, settings, str(Path(path or "", folder.CONFIG)))


def _with_settings(config: Config, settings: Settings, file: str) -> Config:
    """Applies the settings in a file, which may name a search variant."""
    # The network of a run follows from the options that its record holds as well.
    settings = {name: x for name, x in settings.items() if name != "architecture"}
    if isinstance(settings.get("network"), dict):
        network = settings["network"].items()
        settings["network"] = {name: x for name, x in network if name != "num_heads"}
    if isinstance(settings.get("search"), dict):
        search = dict(settings["search"])
        settings["search"], variant = search, search.pop("variant", None)
        if variant is not None:
            config = with_variant(config, variant, f"{file}: ")
    return apply_settings(config, settings, file)


def with_variant(config: Config, variant: Any, prefix: str = "") -> Config:
    """Returns the configuration with another search variant and its default options.

    If it has that variant already, it is returned unchanged.

    Raises:
      ValueError: if there is no such variant; the message starts with `prefix`.
    """
    if not isinstance(variant, str) or variant not in REGISTRY:
        known = ", ".join(REGISTRY)
        raise UserError(f"{prefix}there is no search variant {variant!r}; the variants are {known}")
    if variant == variant_of(config.search):
        return config
    return dataclasses.replace(config, search=REGISTRY[variant].policy())


def _describe_variants() -> str:
    """Describes the flag `--search.variant`, which is parsed before the others, for `--help`."""
    variants = "; ".join(f"{name} ({row.summary})" for name, row in REGISTRY.items())
    return f"--search.variant NAME chooses the search: {variants}."
