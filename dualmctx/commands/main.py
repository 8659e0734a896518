"""The command `dualmctx`: a table of subcommands, each a function of a module."""

import importlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from dualmctx.commands.compilation_cache import FLAG, use_cache
from dualmctx.commands.process_settings import silence_orbax, standard_streams
from dualmctx.distributed.signals import signals_as_interrupt
from dualmctx.errors import UserError
from dualmctx.training.divergence import FAILURES, first_line
from dualmctx.version import __version__


class Subcommand(NamedTuple):
    """A row of the table.

    Attributes:
      module: the name of the module, which is imported when the command is run.
      summary: a description for `--help`.
      function: the function that runs the command; it takes the arguments.
    """

    module: str
    summary: str
    function: str = "main"

    def load(self) -> Any:
        """Imports the module."""
        return importlib.import_module(f"dualmctx.commands.{self.module}")


SUBCOMMANDS: dict[str, Subcommand] = {
    "train": Subcommand("train", "trains a network by self-play"),
    "evaluate": Subcommand("evaluate", "evaluates the positions in a file"),
    "serve": Subcommand("serve", "evaluates positions that another program sends"),
    "play": Subcommand("play", "plays and analyses games in the browser"),
    "gtp": Subcommand("engine", "plays for programs that speak GTP, as an engine", "gtp"),
    "uci": Subcommand("engine", "plays chess for programs that speak UCI", "uci"),
    "compare": Subcommand("compare", "plays matches between players and rates them"),
    "dataset": Subcommand("dataset", "makes a data set of positions from games"),
    "export": Subcommand("export", "writes the network of a run to one file"),
    "tree": Subcommand("tree", "draws the tree of a search, or a small game"),
    "check-game": Subcommand("check_game", "checks a game of your own"),
}
COMPLETION = "--print-completion"
"""The flag that prints the script for the Tab key of a shell."""
# The exit codes in shells of a program that Ctrl-C stopped, or whose output is no longer read.
_INTERRUPTED, _OUTPUT_CLOSED = 130, 141
_USAGE = f"""\
usage: dualmctx COMMAND [ARGUMENT ...]

Batched game-tree search in JAX: training, evaluation and comparison.

{{commands}}

`dualmctx COMMAND --help` describes the arguments of a command.
`dualmctx --version` prints the version.

{COMPLETION} bash, or zsh, prints the script with which the Tab key
completes commands and flags.

{FLAG} turns off the cache of compiled programs, in ~/.cache/dualmctx.

Exit codes: 0 for success; 1 for rows with errors or bad games; 2 for
bad input, or if memory, the disk, the network or a device fails; 3 if
training diverges; 130 after Ctrl-C or SIGTERM; 141 if nothing reads the
output any more."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command, by default with the arguments of this process; returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    program = f"dualmctx {arguments[0]}" if arguments[:1] and arguments[0] in SUBCOMMANDS else ""
    return run_command(program or "dualmctx", lambda: _dispatch(arguments))


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        rows = [f"  {name:<11}{row.summary}" for name, row in SUBCOMMANDS.items()]
        print(_USAGE.format(commands="\n".join(rows)))
        return 0 if arguments else 2
    if arguments[0].split("=")[0] == COMPLETION:
        from dualmctx.commands.completion import completion

        shell = arguments[0].partition("=")[2] or "".join(arguments[1:2])
        print(completion(shell, {name: row.load() for name, row in SUBCOMMANDS.items()}))
        return 0
    if arguments[0] == "--version":
        print(f"dualmctx {__version__}")
        return 0
    name, *rest = arguments
    if name not in SUBCOMMANDS:
        return fail(
            "dualmctx", f"there is no command {name!r}; use one of {', '.join(SUBCOMMANDS)}"
        )
    try:
        importlib.import_module("dualmctx.games")
    except ImportError as error:
        return fail(f"dualmctx {name}", str(error))
    rest = use_cache(rest, f"dualmctx {name}")
    row = SUBCOMMANDS[name]
    return getattr(row.load(), row.function)(rest)


def run_command(program: str, command: Callable[[], int]) -> int:
    """Runs a command: stops it on request, and turns its failures into messages and exit codes."""
    with standard_streams() as output, signals_as_interrupt(), silence_orbax():
        try:
            try:
                code = command()
            finally:
                sys.stdout.flush()
        except (UserError, *FAILURES) as error:
            code = fail(program, first_line(error))
        except SystemExit as stop:
            # tyro has printed the help or the fault of a flag.
            code = int(stop.code or 0)
        except KeyboardInterrupt as stop:
            if not output.is_closed:
                print(f"{program}: stopped{''.join(stop.args)}", file=sys.stderr)
            code = _INTERRUPTED
        return _OUTPUT_CLOSED if output.is_closed else code


def fail(program: str, message: str) -> int:
    """Prints an error message on standard error; returns the exit code, 2."""
    print(f"{program}: {message}", file=sys.stderr)
    return 2
