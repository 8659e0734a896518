"""`dualmctx play --terminal`: a game against a network in the terminal, without a browser."""

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from dualmctx.commands.terminal.commands import read_command, unknown
from dualmctx.commands.terminal.game import read_move
from dualmctx.commands.terminal.session import Session
from dualmctx.commands.terminal.text import wrap
from dualmctx.console import printable, unfiltered
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.web.checkpoints import DEFAULT
from dualmctx.web.engine import Engine

if TYPE_CHECKING:
    from dualmctx.commands.play import Options

_MAX_LINE = 1000
_SECONDS_TO_STOP = 10.0


def play(options: "Options") -> int:
    """Plays in the terminal until `quit` or the end of the input; returns the exit code, 0.

    Raises:
      ValueError: if there are several networks, or the network or the search cannot be loaded.
      KeyboardInterrupt: after Ctrl-C at the prompt, or SIGTERM.
    """
    from dualmctx.commands.play import check_search, engine_options, load_network

    if len(options.checkpoints) > 1:
        raise UserError(f"{len(options.checkpoints)} networks are given; name one for --terminal")
    require_backend("dualmctx play")
    # Neither a terminal without Unicode nor wrong bytes in the input end the program.
    for stream in (sys.stdin, unfiltered(sys.stdout)):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    name = options.checkpoints[0] if options.checkpoints else DEFAULT
    network = load_network(options, name)
    # Before the engine, whose thread would have to be stopped after an error.
    check_search(network.trained.record, options)
    engine = Engine(network.trained, network.build, engine_options(options))
    try:
        session = Session(name, network, engine, options.max_simulations, options.seed)
        run(session, sys.stdin)
    except KeyboardInterrupt:
        print()  # ends the line of the prompt
        _stop(engine, 130)
        raise
    except Exception:
        _stop(engine, 2)
        raise
    _stop(engine, 0)
    return 0


def _stop(engine: Engine, code: int) -> None:
    """Ends the searches; if a compilation goes on for long, ends the program with a code."""
    engine.close()
    if not engine.join(_SECONDS_TO_STOP):
        # A compilation cannot be interrupted, and Python must not end before its thread.
        sys.stdout.flush()
        os._exit(code)


def run(session: Session, lines: TextIO) -> None:
    """Reads moves and commands and answers them, until `quit` or the end of the input."""
    session.welcome()
    while not session.is_done:
        try:
            session.answer()
            line = _read(session.prompt(), lines)
            if line is None:
                return
            if line:
                _obey(session, line)
        except UserError as error:
            print(wrap(" ".join(str(error).split())))
        except OSError as error:
            print(wrap(f"{error.filename or 'file'}: {error.strerror}"))


def _read(prompt: str, lines: TextIO) -> str | None:
    """Returns the next line without spaces around it; `None` at the end of the input."""
    print(prompt, end="", flush=True)
    line = lines.readline()
    if not line:
        print()
        return None
    # A terminal shows what is typed; text from a pipe or file is shown here.
    if not lines.isatty():
        print(printable(line.strip()[:_MAX_LINE]), flush=True)
    return line.strip()


def _obey(session: Session, line: str) -> None:
    """Plays a move or runs a command.

    Raises:
      ValueError: if the line is neither a legal move nor a command.
      OSError: if a file cannot be read or written.
    """
    if len(line) > _MAX_LINE:
        raise UserError(f"The line is longer than {_MAX_LINE} characters; write games to a file.")
    try:
        action = read_move(session.env, session.opened, line)
    except UserError as error:
        found = read_command(line)
        if found is None:
            raise UserError(unknown(line, str(error))) from None
        command, argument = found
        command.run(session, argument)
    else:
        session.play(action)
