"""Completion of commands and flags by the Tab key of a shell."""

import contextlib
import dataclasses
import importlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import tyro

from dualmctx.commands.flags import make_registry, named
from dualmctx.commands.pipeline_settings import KINDS
from dualmctx.errors import UserError
from dualmctx.policies import REGISTRY
from dualmctx.training.presets import PRESETS

SHELLS = ("bash", "zsh")
"""The shells whose Tab key can complete commands and flags."""
_Switch = tyro.conf.FlagCreatePairsOff[bool]
# Flags that commands read before those of their options.
_EVERYWHERE = [
    ("config", Annotated[str, named(help="A file of settings.", help_behavior_hint="")], ""),
    ("no_cache", _Switch, False),
]
_TRAIN: list[tuple[str, Any, Any]] = [
    ("variant", Annotated[Literal[tuple(REGISTRY)], named(name="search.variant")], "dual"),
    ("pipeline", Literal[tuple(KINDS)], next(iter(KINDS))),
    ("resume", Annotated[str, named(help="The folder of a run.", help_behavior_hint="")], ""),
    ("print_config", _Switch, False),
]


def completion(shell: str, modules: Mapping[str, str]) -> str:
    """Returns the script that makes a shell complete the words after `dualmctx`.

    Words that are neither commands nor flags are completed as names of files. The flags of `train`
    are those of its first preset.

    Args:
      shell: one of `SHELLS`.
      modules: the module of each subcommand.

    Raises:
      ValueError: if the shell is another one.
    """
    if shell not in SHELLS:
        raise UserError(f"--print-completion is {shell!r}; it must be one of {', '.join(SHELLS)}")
    commands: list[Any] = []
    for name, module in modules.items():
        options = getattr(importlib.import_module(module), "Options", None)
        if options is None:
            default = _with_fields(next(iter(PRESETS.values())), _TRAIN + _EVERYWHERE)
        else:
            default = _with_fields(options(), _EVERYWHERE)
        subcommand = tyro.conf.subcommand(name, default=default)
        commands.append(Annotated[type(default), subcommand])
    # The empty name leaves the flags of the commands without a prefix.
    either = Annotated[Union[tuple(commands)], tyro.conf.arg(name="")]  # noqa: UP007
    program = dataclasses.make_dataclass("Program", [("command", either)])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "completion")
        # tyro ends the program after it has written the script.
        with contextlib.suppress(SystemExit):
            tyro.cli(
                program,
                prog="dualmctx",
                args=["--tyro-write-completion", shell, str(file)],
                config=(tyro.conf.OmitSubcommandPrefixes,),
                registry=make_registry(),
            )
        script = file.read_text(encoding="utf-8")
    # bash completes names of files only if it is told to.
    return script.replace("complete -F", "complete -o default -F")


def _with_fields(options: Any, added: list[tuple[str, Any, Any]]) -> Any:
    """Returns options with more fields, each with a name, a type and a value."""
    names = [field.name for field in dataclasses.fields(options)]
    values = {name: getattr(options, name) for name in names}
    fields = [(name, hint, dataclasses.field(default=value)) for name, hint, value in added]
    cls = dataclasses.make_dataclass("More", fields, bases=(type(options),), frozen=True)
    return cls(**values)
