"""The commands that a person types in `dualmctx play --terminal`, besides moves."""

from collections.abc import Callable
from typing import NamedTuple

from dualmctx.commands.terminal import actions
from dualmctx.commands.terminal.session import Session
from dualmctx.commands.terminal.text import describe_notation
from dualmctx.errors import UserError
from dualmctx.evaluation.fields import perhaps


class Command(NamedTuple):
    """A command.

    Attributes:
      argument: the argument in the list of commands; in brackets if it may be left out; empty if
        there is none.
      summary: a description of at most 50 characters.
      run: runs the command with its argument, see `actions`.
    """

    argument: str
    summary: str
    run: Callable[[Session, str], None]


def _help(session: Session, text: str) -> None:
    """Shows the list of commands."""
    del text
    print(describe_commands(describe_notation(session.env)))


COMMANDS = {
    "help": Command("", "show this list", _help),
    "moves": Command("", "list the legal moves", actions.list_legal),
    "hint": Command("", "show the move that the search would play", actions.hint),
    "analyse": Command("[N]", "search N simulations and show the best moves", actions.analyse),
    "exact": Command("", "show the exact values, if they are known", actions.exact),
    "board": Command("", "show the board again", actions.show_board),
    "record": Command("", "show the moves of the game", actions.show_record),
    "undo": Command("", "take back your last move and the answer to it", actions.take_back),
    "new": Command("", "start a new game", actions.begin),
    "resign": Command("", "give the game up", actions.resign),
    "side": Command("[SIDE]", "play first, second, both or none", actions.set_sides),
    "level": Command("[N]", "simulations of the search for each move", actions.set_level),
    "variant": Command("[NAME]", "the search, such as alphazero or gumbel", actions.set_variant),
    "temperature": Command(
        "[T]", "0 plays the best move; 1 varies the moves", actions.set_temperature
    ),
    "position": Command("TEXT", "set up a FEN, or moves from the start", actions.set_position),
    "save": Command("FILE", "write the game: .pgn, .sgf or .txt", actions.save),
    "load": Command("FILE", "read a game in one of these formats", actions.load),
    "quit": Command("", "end the program", actions.leave),
}
_ALIASES = {"?": "help", "h": "help", "analyze": "analyse", "exit": "quit", "q": "quit"}
_ALIASES |= {"simulations": "level", "back": "undo", "u": "undo"}


def describe_commands(notation: str) -> str:
    """Returns the list of commands, after a line about the moves of the game."""
    rows = [(f"{name} {x.argument}".rstrip(), x.summary) for name, x in COMMANDS.items()]
    width = max(len(usage) for usage, _ in rows)
    lines = [f"  {usage.ljust(width)}  {summary}" for usage, summary in rows]
    return "\n".join(
        [
            f"Type a move ({notation}) or a command:",
            *lines,
            "Values are those of the player to move, from -1 (loss) to 1 (win).",
            "Ctrl-C stops a search; at the prompt, it ends the program.",
        ]
    )


def read_command(line: str) -> tuple[Command, str] | None:
    """Returns a command and its argument; `None` if the line is no command.

    Raises:
      ValueError: if an argument is missing, or there is one too many.
    """
    word, _, argument = line.partition(" ")
    name = _ALIASES.get(word.lower(), word.lower())
    if name not in COMMANDS:
        return None
    argument, expected = argument.strip(), COMMANDS[name].argument
    if argument and not expected:
        raise UserError(f"{name} has no argument, but there is {argument[:40]!r}.")
    if expected and not argument and not expected.startswith("["):
        raise UserError(f"{name} needs an argument: {name} {expected}.")
    return COMMANDS[name], argument


def unknown(line: str, reason: str) -> str:
    """Returns the message for a line that is neither a command nor a legal move."""
    shown = repr(line if len(line) <= 40 else f"{line[:40]} ...")
    if not reason.startswith("not a move"):
        return f"{shown} is {reason}"
    meant = perhaps(line.split()[0].lower(), COMMANDS)
    return f"{shown} is {reason.rstrip('.')}; it is no command either{meant}. Type help."
