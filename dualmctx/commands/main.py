"""The command `dualmctx`: a table of subcommands, each a module with `main(arguments) -> int`."""

import importlib
import logging
import os
import sys
from typing import NamedTuple

from dualmctx import __version__
from dualmctx.training.divergence import FAILURES, first_line


class Subcommand(NamedTuple):
    """A row of the table: the module, imported when it is asked for, and what it does."""

    module: str
    summary: str


SUBCOMMANDS: dict[str, Subcommand] = {
    "train": Subcommand("dualmctx.commands.train", "trains a network by self-play"),
    "evaluate": Subcommand("dualmctx.commands.evaluate", "evaluates the positions of a file"),
    "serve": Subcommand("dualmctx.commands.serve", "answers positions that another program sends"),
    "compare": Subcommand("dualmctx.commands.compare", "plays players against each other"),
    "reproduce": Subcommand("dualmctx.commands.reproduce", "repeats the experiments of the paper"),
    "export": Subcommand("dualmctx.commands.export", "writes what a run has learned to one file"),
}
_BROKEN_PIPE = 141
"""What a shell says of a program whose reader has gone."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command.

    Args:
      arguments: what follows the program's name; by default of this process.

    Returns:
      The exit code: 0 when all went well, 2 for bad input or where memory, the disk or the network
      fails, in a line on standard error, 130 after Ctrl-C, and what a subcommand has besides.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(describe())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"dualmctx {__version__}")
        return 0
    name, *rest = arguments
    if name not in SUBCOMMANDS:
        return fail("dualmctx", f"there is no command {name!r}; there are {', '.join(SUBCOMMANDS)}")
    # orbax logs every phase of what it reads.
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        code = importlib.import_module(SUBCOMMANDS[name].module).main(rest)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Python would write the rest when it ends, in vain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (ValueError, *FAILURES) as error:
        return fail(f"dualmctx {name}", first_line(error))
    except KeyboardInterrupt as stop:
        print(f"dualmctx {name}: stopped{''.join(stop.args)}", file=sys.stderr)
        return 130


def fail(program: str, message: str) -> int:
    """Says in a line what is wrong; returns the exit code."""
    print(f"{program}: {message}", file=sys.stderr)
    return 2


def describe() -> str:
    """Describes the command, for `--help`."""
    rows = [f"  {name:<10}{row.summary}" for name, row in SUBCOMMANDS.items()]
    return "\n".join(
        [
            "dualmctx COMMAND [ARGUMENT ...]",
            "",
            *rows,
            "",
            "`dualmctx COMMAND --help` lists a command's arguments.",
            "`dualmctx --version` says which version this is.",
        ]
    )
