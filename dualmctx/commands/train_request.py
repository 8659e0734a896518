"""The command line of training before its flags are parsed: preset, file, and run to resume."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

from dualmctx.commands.flags import parse_flags, take_config, take_flag
from dualmctx.commands.game_flags import run_name
from dualmctx.commands.network_flag import expand_network_flag
from dualmctx.commands.settings import Settings, apply_settings, read_settings
from dualmctx.errors import UserError
from dualmctx.import_path import require_named
from dualmctx.runs import folder
from dualmctx.training.config import check_processes
from dualmctx.typed_values import NONE

RESUME, PRINT_CONFIG = "--resume", "--print-config"
AUTO = "auto"
"""The value of `--resume` that continues a run if there is one, and starts it if there is none."""
COMPLETE = {"game", "search", "network", "selfplay", "learner", "evals", "num_iterations"}
"""A file with all of these entries needs no preset."""


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
        raise UserError(f"{file}: resume is a flag only; use {RESUME}")
    in_file = settings.pop("preset", None)
    if not isinstance(in_file, str | None):
        raise UserError(f"{file}: preset is {in_file!r}; it must be a string")
    in_file = in_file and in_file.replace("_", "-")
    if None not in (preset, in_file) and preset != in_file:
        raise UserError(
            f"{file}: preset is {in_file!r}, but the command names {preset}; leave one of them out"
        )
    return Request(preset or in_file, file or "", settings, variant, resume, flags)


def require_named_code(request: Request, game: str, network: str | None = None) -> None:
    """Checks that the command names the game and the network of the run that it resumes.

    This holds for those outside the package: the folder of a run may come from a stranger. A flag
    names them, or the file of settings, which is a part of the command.

    Args:
      request: the command line.
      game: the game of the run.
      network: the factory of its network.

    Raises:
      UserError: if only the record of the run names one of them.
    """
    path, in_file = resumed_folder(request) or Path(), folder.flatten(request.settings)
    for name, saved in (("game", game), ("network.factory", network)):
        kind = name.partition(".")[0]
        named = take_flag(request.flags, f"--{name}")[0], in_file.get(name)
        require_named(saved, named, path, kind, f"--{kind} {saved}")


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


def processes_of(request: Request, program: str) -> Processes:
    """Returns the options of a run on several processes, before all flags are parsed.

    Args:
      request: the command line.
      program: the program's name, for messages.

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
    return parse_flags(default, given, program, "")


def resumed_folder(request: Request) -> Path | None:
    """Returns the folder of the run to resume; `None` for a new run.

    Raises:
      ValueError: if the command line does not name the folder, or names two.
    """
    if request.resume is None:
        return None
    out = take_flag(request.flags, "--out")[0] or request.settings.get("out")
    out = None if out in (None, NONE) else str(out)
    if request.resume not in ("", AUTO):
        if out is not None and Path(out) != Path(request.resume):
            raise UserError(f"--out is {out}, but {RESUME} names {request.resume}; leave one out")
        return Path(request.resume)
    if out is not None:
        return Path(out)
    game = take_flag(request.flags, "--game")[0] or request.settings.get("game")
    name = request.preset or (run_name(str(game)) if game else None)
    if name is not None:
        return Path("runs", name)
    if not request.resume and Path(folder.CONFIG).exists():
        return Path()
    raise UserError(f"{RESUME} needs the folder of a run: {RESUME} FOLDER, or --out FOLDER")


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
    if not record.keys() >= {*COMPLETE, "preset"}:
        raise UserError(f"{path} is not the folder of a training run")
    if (path / "steps").is_dir():
        raise UserError(f"{path} is a run of `dualmctx reproduce`; resume it with that command")
    return record
