"""Completion of commands and flags by the Tab key of a shell."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Union

import tyro

from dualmctx.commands.flags import ConfigFlag, Switch, make_registry
from dualmctx.commands.train_settings import EarlyFlags
from dualmctx.errors import UserError
from dualmctx.training.presets import PRESETS

_SHELLS = ("bash", "zsh")


def completion(shell: str, modules: Mapping[str, Any]) -> str:
    """Returns the script that makes a shell complete the words after `dualmctx`.

    Words that are neither commands nor flags are completed as names of files. The flags of `train`
    are those of its first preset. `modules` has the module of each subcommand.
    """
    if shell not in _SHELLS:
        raise UserError(f"--print-completion is {shell!r}; it must be one of {', '.join(_SHELLS)}")
    commands: list[Any] = []
    for name, module in modules.items():
        options = getattr(module, "Options", None)
        if options is None:
            default = _with_early(next(iter(PRESETS.values())), EarlyFlags())
        else:
            default = _with_early(options(), ConfigFlag())
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


def _with_early(options: Any, early: ConfigFlag) -> Any:
    """Returns options with those that are read before them."""
    fields = [("no_cache", Switch, dataclasses.field(default=False))]
    bases = (type(early), type(options))
    cls = dataclasses.make_dataclass("More", fields, bases=bases, frozen=True)
    given = {x.name: getattr(y, x.name) for y in (options, early) for x in dataclasses.fields(y)}
    return cls(**given)
