"""The settings of a training run: from a preset, a file, the run's own record, and flags.

Flags take precedence over the file, and the file over the preset. A run that is resumed starts from
its own record instead of a preset.
"""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.commands.flags import CONFIG, parse_flags, take_config, take_flag
from dualmctx.commands.game_flags import GameFlags, preset_of_game, run_name
from dualmctx.commands.network_flag import DESCRIPTION as ABOUT_NETWORK
from dualmctx.commands.network_flag import expand_network_flag
from dualmctx.commands.settings import NONE, apply_settings
from dualmctx.commands.settings_file import Settings, read_settings
from dualmctx.experiment.assemble import record_of, variant_of
from dualmctx.policies import REGISTRY
from dualmctx.runs import folder
from dualmctx.runs.fixed_settings import fixed_settings
from dualmctx.training.config import Config, check_processes
from dualmctx.training.presets import PRESETS

RESUME, PRINT_CONFIG = "--resume", "--print-config"
AUTO = "auto"
"""The value of `--resume` that continues a run if there is one, and starts it if there is none."""
# A file with all of these needs no preset.
_GROUPS = {"game", "search", "network", "selfplay", "learner", "evals", "num_iterations"}


class Request(NamedTuple):
    """A command line, before its flags are parsed.

    Attributes:
      preset: the name of the preset; `None` if there is none.
      file: the file of settings; empty if there is none.
      settings: the settings in that file.
      variant: the search variant that a flag names; `None` if there is none.
      resume: the value of `--resume`, empty if it has none; `None` for a new run.
      flags: the other arguments.
    """

    preset: str | None
    file: str
    settings: Settings
    variant: str | None
    resume: str | None
    flags: list[str]


def read_request(arguments: list[str]) -> Request:
    """Splits a command line, and reads the file of settings.

    Raises:
      ValueError: if a preset, a file or a search variant is invalid.
    """
    preset, flags = None, [x for x in arguments if x != PRINT_CONFIG]
    if flags and not flags[0].startswith("-"):
        # Games are named with underscores, presets with hyphens.
        preset, flags = flags[0].replace("_", "-"), flags[1:]
    file, flags = take_config(flags)
    settings = {} if file is None else read_settings(file)
    # The variant decides which other flags exist.
    variant, flags = take_flag(flags, "--search.variant")
    resume, flags = _take_resume(expand_network_flag(flags))
    if settings.pop("resume", False):
        raise ValueError(f"{file}: resume is a flag only; use {RESUME}")
    in_file = settings.pop("preset", None)
    if None not in (preset, in_file) and preset != in_file:
        raise ValueError(
            f"{file}: preset is {in_file!r}, but the command names {preset}; leave one of them out"
        )
    return Request(preset or in_file, file or "", settings, variant, resume, flags)


def _take_resume(flags: list[str]) -> tuple[str | None, list[str]]:
    """Removes `--resume` with its value, which may be missing."""
    for i, flag in enumerate(flags):
        if flag.startswith(f"{RESUME}="):
            return flag.partition("=")[2], flags[:i] + flags[i + 1 :]
        if flag == RESUME:
            value = [x for x in flags[i + 1 : i + 2] if not x.startswith("--")]
            return "".join(value), flags[:i] + flags[i + 1 + len(value) :]
    return None, flags


@dataclasses.dataclass(frozen=True)
class Processes:
    """The options of a run on several processes; see `Config`."""

    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None

    def __post_init__(self) -> None:
        """Checks the options."""
        check_processes(self.coordinator, self.num_processes, self.process_id)


def processes_of(request: Request) -> Processes:
    """Returns the options of a run on several processes, before all flags are parsed.

    Raises:
      ValueError: if they are invalid.
    """
    names = [field.name for field in dataclasses.fields(Processes)]
    settings = {name: request.settings[name] for name in names if name in request.settings}
    default = apply_settings(Processes(), settings, request.file)
    given: list[str] = []
    for flag in (f"--{name.replace('_', '-')}" for name in names):
        value, _ = take_flag(request.flags, flag)
        given += [] if value is None else [flag, value]
    return parse_flags(default, given, "", "")


def resumed_folder(request: Request) -> Path | None:
    """Returns the folder of the run to resume; `None` for a new run.

    Raises:
      ValueError: if the command line does not name the folder, or names two.
    """
    if request.resume is None:
        return None
    out = take_flag(request.flags, "--out")[0] or request.settings.get("out")
    out = None if out == NONE else out
    if request.resume not in ("", AUTO):
        if out is not None and Path(out) != Path(request.resume):
            raise ValueError(f"--out is {out}, but {RESUME} names {request.resume}; leave one out")
        return Path(request.resume)
    if out is not None:
        return Path(out)
    game = take_flag(request.flags, "--game")[0] or request.settings.get("game")
    name = request.preset or (run_name(str(game)) if game else None)
    if name is not None:
        return Path("runs", name)
    if not request.resume and Path(folder.CONFIG).exists():
        return Path()
    raise ValueError(f"{RESUME} needs the folder of a run: {RESUME} FOLDER, or --out FOLDER")


def read_resumed(request: Request) -> Settings | None:
    """Reads the configuration of the run to resume; `None` for a new run.

    Raises:
      ValueError: if there is no run, unless it may be started, or if `dualmctx train` did not start
        it.
    """
    path = resumed_folder(request)
    if path is None or (request.resume == AUTO and not (path / folder.CONFIG).exists()):
        return None
    record = folder.read_config(path)
    if not record.keys() >= {*_GROUPS, "preset"}:
        raise ValueError(f"{path} is not the folder of a training run")
    if (path / "steps").is_dir():
        raise ValueError(f"{path} is a run of `dualmctx reproduce`; resume it with that command")
    return record


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
    if request.file and request.settings.keys() >= _GROUPS:
        return name or run_name(str(request.settings["game"])), Config()
    if name is not None:
        raise ValueError(
            f"there is no preset {name!r}; the presets are {presets}; other games are named with "
            "--game"
        )
    fields = (field.name for field in dataclasses.fields(GameFlags))
    in_file = {x: request.settings[x] for x in fields if x in request.settings}
    game = apply_settings(GameFlags(), in_file, request.file)
    preset = preset_of_game(request.flags, program, game)
    if preset is not None:
        return preset
    raise ValueError(
        f"there is no preset; name one of {presets}, or a game with --game, a file with "
        f"{CONFIG}, or a run with {RESUME} FOLDER"
    )


def _resumed_default(request: Request, saved: Settings) -> tuple[str, Config]:
    path = resumed_folder(request)
    recorded = str(saved["preset"])
    name = recorded if request.preset is None else request.preset
    if name not in (recorded, *PRESETS):
        raise ValueError(f"there is no preset {name!r}; the run in {path} has {recorded}")
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
    if variant not in REGISTRY:
        known = ", ".join(REGISTRY)
        raise ValueError(
            f"{prefix}there is no search variant {variant!r}; the variants are {known}"
        )
    if variant == variant_of(config.search):
        return config
    return dataclasses.replace(config, search=REGISTRY[variant].policy())


def _describe_variants() -> str:
    """Describes the flag `--search.variant`, which is parsed before the others, for `--help`."""
    variants = "; ".join(f"{name} ({row.summary})" for name, row in REGISTRY.items())
    return f"--search.variant NAME chooses the search: {variants}."
