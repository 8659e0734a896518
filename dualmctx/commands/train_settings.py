"""The settings of a run of self-play or of a stage of the pipeline, from its command line.

They come from a preset, a file and flags: flags take precedence over the file, and the file over
the preset. A run that is resumed starts from its own record instead of a preset.
"""

import dataclasses
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import games
from dualmctx.commands.flags import (
    CONFIG,
    ConfigFlag,
    Switch,
    named,
    optional_value,
    parse_flags,
    take_flags,
)
from dualmctx.commands.settings import Settings, apply_settings, read_settings
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import record_of
from dualmctx.import_path import is_import_path, require_named
from dualmctx.models.trunks import TRUNKS
from dualmctx.pipeline.config import AlphaGoConfig, RunConfig, config_of_stage, pipeline_preset
from dualmctx.pipeline.start import PIPELINE, STAGES
from dualmctx.policies import REGISTRY, paper_setting, variant_of
from dualmctx.runs import folder
from dualmctx.training.config import Config, check_processes
from dualmctx.training.neutral_preset import describe_neutral_preset, measure_game, neutral_preset
from dualmctx.training.presets import PRESETS
from dualmctx.typed_values import decode

RESUME = "--resume"
COMPLETE = {"game", "search", "network", "selfplay", "learner", "evals", "num_iterations"}
"""A file with all of these entries needs no preset."""
# Entries of `config.json` that are not settings, or follow from them.
_DERIVED = (PIPELINE, "preset", "architecture", "inputs")
# The options of the networks of this package, which a factory does not receive.
_REPLACED = (
    *("trunk", "width", "num-blocks", "separate-trunks", "no-separate-trunks"),
    *("value-blocks", "dtype"),
)

if TYPE_CHECKING:
    VariantName = StageName = str
else:
    VariantName, StageName = Literal[tuple(REGISTRY)], Literal[tuple(STAGES)]


@dataclasses.dataclass(frozen=True)
class EarlyFlags(ConfigFlag):
    """The flags of training that decide which others there are."""

    variant: Annotated[VariantName | None, named(name="search.variant")] = None
    """The search."""
    paper: Annotated[Switch, named(name="search.paper")] = False
    """The setting of the search's paper, for dual; other flags of the search still apply."""
    pipeline: StageName | None = None
    """The stage of AlphaGo's pipeline."""
    resume: Annotated[str | None, optional_value("FOLDER")] = None
    """The folder of a run."""
    print_config: Switch = False
    """Print all settings and stop."""


@dataclasses.dataclass(frozen=True)
class NamedOptions:
    """The options that are needed before the others, from the file and the flags."""

    game: str = ""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    factory: Annotated[str | None, named(name="network.factory", aliases=("--network",))] = None
    """A network of your own, as package.module:factory."""
    out: str | None = None
    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None

    def __post_init__(self) -> None:
        """Checks the options of a run on several processes."""
        check_processes(self.coordinator, self.num_processes, self.process_id)


class Request(NamedTuple):
    """A command line, before its flags are parsed.

    Attributes:
      early: the flags that decide which others there are.
      preset: the name of the preset; `None` if there is none.
      file: the file of settings; empty if there is none.
      settings: the settings in that file, without the preset and the stage.
      stage: the stage of the pipeline that the flag or the file names; `None` for self-play.
      named: the options that are needed before the others.
      flags: the arguments that are parsed later, those of `named` included.
    """

    early: EarlyFlags
    preset: str | None
    file: str
    settings: Settings
    stage: str | None
    named: NamedOptions
    flags: list[str]


def read_request(arguments: list[str], program: str) -> Request:
    """Splits a command line, and reads the file of settings."""
    early, flags = take_flags(EarlyFlags(), arguments, program)
    preset, file = None, "".join(early.config)
    if flags and not flags[0].startswith("-"):
        # Games are named with underscores, presets with hyphens.
        preset, flags = flags[0].replace("_", "-"), flags[1:]
    settings = read_settings(file) if file else {}
    if settings.pop("resume", False):
        raise UserError(f"{file}: resume is a flag only; use {RESUME}")
    if (in_file := settings.pop("preset", None)) is not None:
        in_file = decode(f"{file}: preset", in_file, str).replace("_", "-")
    preset = _one_of("preset", preset, in_file, file)
    stage = _one_of(PIPELINE, early.pipeline, settings.pop(PIPELINE, None), file)
    if stage is not None:
        decode(f"{file}: {PIPELINE}", stage, StageName)
    options = _named(settings, file, flags, program)
    _check_network(options.factory, file, flags)
    return Request(early, preset, file, settings, stage, options, flags)


def _one_of(name: str, given: str | None, in_file: str | None, file: str) -> str | None:
    """Returns the value that the command or the file names."""
    if None not in (given, in_file) and given != in_file:
        raise UserError(
            f"{file}: {name} is {in_file!r}, but the command names {given}; leave one of them out"
        )
    return in_file if given is None else given


def _named(settings: Settings, file: str, flags: list[str], program: str) -> NamedOptions:
    names = [field.name for field in dataclasses.fields(NamedOptions)]
    in_file = {name: settings[name] for name in names if name in settings}
    if factory := folder.flatten(settings).get("network.factory"):
        in_file["factory"] = factory
    return take_flags(apply_settings(NamedOptions(), in_file, file), flags, program)[0]


def _check_network(path: str | None, file: str, flags: list[str]) -> None:
    """Checks the path of a network of the user, and that no flag is for other networks."""
    if path is None:
        return
    names = [x.split("=")[0] for x in flags if x.startswith("--network")]
    if not is_import_path(path):
        name = "--network" if "--network" in names else "network.factory"
        if not {"--network", "--network.factory"} & {*names}:
            name = f"{file}: {name}"
        trunk = f"; for the trunk {path} use --network.trunk {path}" if path in TRUNKS else ""
        raise UserError(f"{name} is {path}; write it as package.module:factory{trunk}")
    for flag in names:
        if flag.replace("_", "-").removeprefix("--network.") in _REPLACED:
            raise UserError(
                f"{flag} does not apply to {path}; leave it out, and set the options of your "
                "factory by --network.options, as in --network.options width 128"
            )


def run_name(game: str) -> str:
    """Returns the name of the runs of a game that has no preset, also of their folder."""
    return re.sub(r"[^A-Za-z0-9]+", "-", game).strip("-")


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


def settle(request: Request, path: Path | None, saved: Settings | None, program: str) -> Settled:
    """Combines all settings of a run.

    Args:
      request: the command line.
      path: the folder of the run, if `--resume` names it.
      saved: the `config.json` of the run to resume; `None` for a new run.
      program: the program's name, for `--help`.

    Raises:
      UserError: if a setting is invalid.
      SystemExit: with code 0, after `--help`.
    """
    stage = request.stage
    if saved is None:
        preset, base = _new(request, program)
    else:
        stage, preset = saved.get(PIPELINE), str(saved["preset"])
        file = str(Path(path or "", folder.CONFIG))
        if stage is not None:
            decode(f"{file}: {PIPELINE}", stage, StageName)
        base = _with_file(Config() if stage is None else STAGES[stage].config(), saved, file)
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
    """Checks the settings of a resumed run: its learning rates stay; its data set may be moved."""
    if config.schedule_iterations is None and config.num_iterations != saved.num_iterations:
        config = dataclasses.replace(config, schedule_iterations=saved.num_iterations)
    known = saved if saved.dataset is None else dataclasses.replace(saved, dataset=config.dataset)
    before, after = (folder.fixed_settings(record_of(preset, x)) for x in (known, config))
    folder.require_same_settings(Path(config.out or ""), before, after)
    return config


def _new(request: Request, program: str) -> tuple[str, Any]:
    """Returns the name and the configuration that the file and the flags of a new run change."""
    if request.stage is not None:
        return _new_stage(request, STAGES[request.stage].config)
    name, game = request.preset, request.named.game
    if name in PRESETS:
        return name, PRESETS[name]
    if request.settings.keys() >= COMPLETE:
        return name or run_name(game), Config()
    if name is not None or not game:
        raise _no_preset(name, f"a file with {CONFIG}, ")
    name = run_name(game)
    if name in PRESETS and not is_import_path(game):
        return name, PRESETS[name]
    return name, _neutral(request.named, program)


def _no_preset(name: str | None, file: str = "") -> UserError:
    known = ", ".join(PRESETS)
    if name:
        return UserError(
            f"there is no preset {name!r}; name one of {known}; other games are named with --game"
        )
    return UserError(
        f"there is no preset; name one of {known}, a game with --game, {file}or a run with "
        f"{RESUME} FOLDER"
    )


def _neutral(given: NamedOptions, program: str) -> Config:
    """Returns a preset that follows from random games, and describes it on standard error."""
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
        raise _no_preset(name)
    return name, base if kind is AlphaGoConfig else config_of_stage(base, kind)


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

    If it has the variant already, its options are kept. `prefix` is the beginning of messages.
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


_ABOUT_FLAGS = (
    "--search.variant dual --search.paper starts from the setting of the Dual MCTS paper, which "
    "other flags of the search change. --network package.module:factory trains a network of your "
    "own, with its options in --network.options (docs/networks.md)."
)


def _describe(stage: str | None, preset: str, program: str) -> tuple[str, str]:
    """Returns the program's name and its description for `--help`."""
    if stage is not None:
        about = f"AlphaGo's pipeline, {stage}: {STAGES[stage].summary}."
        return f"{program} {preset} --{PIPELINE} {stage}", f"{about} docs/pipeline.md has more."
    variants = "; ".join(f"{name} ({row.summary})" for name, row in REGISTRY.items())
    about = f"Trains a network with the preset {preset}. --search.variant NAME chooses the search: "
    return f"{program} {preset}", f"{about}{variants}. {_ABOUT_FLAGS}"
