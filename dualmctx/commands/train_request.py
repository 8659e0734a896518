"""The command line of training before its flags are parsed: preset, file, stage, run to resume."""

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from dualmctx.commands.flags import ConfigFlag, Switch, named, optional_value, take_flags
from dualmctx.commands.settings import Settings, apply_settings, read_settings
from dualmctx.errors import UserError
from dualmctx.import_path import is_import_path
from dualmctx.models.trunks import TRUNKS
from dualmctx.pipeline.start import ALL_STAGES, ALPHAGO, PIPELINE, STAGES, StageKind
from dualmctx.policies import REGISTRY
from dualmctx.runs import folder
from dualmctx.training.config import check_processes
from dualmctx.typed_values import decode

RESUME = "--resume"
AUTO = "auto"
"""The value of `--resume` that continues a run if there is one, and starts it if there is none."""
COMPLETE = {"game", "search", "network", "selfplay", "learner", "evals", "num_iterations"}
"""A file with all of these entries needs no preset."""
KINDS: dict[str, StageKind] = {**STAGES, ALPHAGO: ALL_STAGES}
"""The stages, and the whole pipeline."""
ABOUT_NETWORK = (
    "--network package.module:factory trains a network of your own, with its options in "
    "--network.options (docs/networks.md)."
)
"""Describes the flag for `--help`."""
# The options of the networks of this package, which a factory does not receive.
_REPLACED = ("trunk", "width", "num-blocks", "separate-trunks", "no-separate-trunks", "dtype")

if TYPE_CHECKING:
    VariantName = StageName = str
else:
    VariantName, StageName = Literal[tuple(REGISTRY)], Literal[tuple(KINDS)]


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
    own_network: Annotated[str | None, named(name="network")] = None
    """A network of your own, as package.module:factory."""


@dataclasses.dataclass(frozen=True)
class NamedOptions:
    """The options that are needed before the others, from the file and the flags."""

    game: str = ""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    factory: Annotated[str | None, named(name="network.factory")] = None
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
    """Splits a command line, and reads the file of settings.

    Raises:
      UserError: if the preset, the file or a value is invalid.
      SystemExit: with code 2, if a flag has no value or one of another type.
    """
    early, flags = take_flags(EarlyFlags(), arguments, program)
    preset, file = None, "".join(early.config)
    if flags and not flags[0].startswith("-"):
        # Games are named with underscores, presets with hyphens.
        preset, flags = flags[0].replace("_", "-"), flags[1:]
    settings = read_settings(file) if file else {}
    if settings.pop("resume", False):
        raise UserError(f"{file}: resume is a flag only; use {RESUME}")
    in_file = settings.pop("preset", None)
    if not isinstance(in_file, str | None):
        raise UserError(f"{file}: preset is {in_file!r}; it must be a string")
    preset = _one_of("preset", preset, in_file and in_file.replace("_", "-"), file)
    stage = _one_of(PIPELINE, early.pipeline, settings.pop(PIPELINE, None), file)
    if stage is not None:
        decode(f"{file}: {PIPELINE}", stage, StageName)
    flags = _expand_network(early.own_network, flags)
    options = _named(settings, file, flags, program)
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


def _expand_network(path: str | None, flags: list[str]) -> list[str]:
    """Adds `--network PATH` as `--network.factory PATH`.

    Raises:
      UserError: if the value is not a path, or if there are flags that a network of the user does
        not receive.
    """
    if path is None:
        return flags
    if not is_import_path(path):
        trunk = f"; for the trunk {path} use --network.trunk {path}" if path in TRUNKS else ""
        raise UserError(f"--network is {path}; write it as package.module:factory{trunk}")
    for flag in (x.split("=")[0] for x in flags if x.startswith("--network.")):
        if flag.replace("_", "-").removeprefix("--network.") in _REPLACED:
            raise UserError(
                f"{flag} does not apply to {path}; leave it out, and set the options of your "
                "factory by --network.options, as in --network.options width 128"
            )
    return [*flags, "--network.factory", path]


def run_name(game: str) -> str:
    """Returns the name of the runs of a game that has no preset, also of their folder."""
    return re.sub(r"[^A-Za-z0-9]+", "-", game).strip("-")


def resumed_folder(request: Request) -> Path | None:
    """Returns the folder of the run to resume; `None` for a new run.

    Raises:
      UserError: if the command line does not name the folder, or names two.
    """
    resume, out = request.early.resume, request.named.out
    if resume is None:
        return None
    if resume not in ("", AUTO):
        if out is not None and Path(out) != Path(resume):
            raise UserError(f"--out is {out}, but {RESUME} names {resume}; leave one out")
        return Path(resume)
    if out is not None:
        return Path(out)
    name = request.preset or run_name(request.named.game)
    if name:
        return Path("runs", "-".join(filter(None, (name, request.stage))))
    if not resume and Path(folder.CONFIG).exists():
        return Path()
    raise UserError(f"{RESUME} needs the folder of a run: {RESUME} FOLDER, or --out FOLDER")


def read_resumed(request: Request) -> Settings | None:
    """Reads the configuration of the run to resume; `None` for a new run.

    Raises:
      UserError: if there is no run, unless it may be started, or if `dualmctx train` did not start
        it, or if the command names another stage or preset.
    """
    path = resumed_folder(request)
    if path is None or (request.early.resume == AUTO and not (path / folder.CONFIG).exists()):
        return None
    saved = folder.read_config(path)
    if request.stage is not None and PIPELINE not in saved:
        raise UserError(
            f"{path} is not the folder of a stage of the pipeline; leave out --{PIPELINE} to "
            "continue it"
        )
    if "preset" not in saved or not (PIPELINE in saved or saved.keys() >= COMPLETE):
        raise UserError(f"{path} is not the folder of a training run")
    found = {name: saved.get(name) for name in (PIPELINE, "preset")}
    for name, given in ((PIPELINE, request.stage), ("preset", request.preset)):
        if given not in (None, found[name]):
            raise UserError(
                f"{path} is a run of the {name} {found[name]}, not of {given}; leave {given} out"
            )
    return saved
