"""The commands that a person types in `dualmctx play --terminal`, besides moves."""

from typing import NamedTuple

from dualmctx.evaluation.fields import perhaps


class Command(NamedTuple):
    """A command.

    Attributes:
      argument: the argument in the list of commands; in brackets if it may be left out; empty if
        there is none.
      summary: a description of at most 50 characters.
    """

    argument: str
    summary: str


COMMANDS = {
    "help": Command("", "show this list"),
    "moves": Command("", "list the legal moves"),
    "hint": Command("", "show the move that the search would play"),
    "analyse": Command("[N]", "search N simulations and show the best moves"),
    "exact": Command("", "show the exact values, if they are known"),
    "board": Command("", "show the board again"),
    "record": Command("", "show the moves of the game"),
    "undo": Command("", "take back your last move and the answer to it"),
    "new": Command("", "start a new game"),
    "resign": Command("", "give the game up"),
    "side": Command("SIDE", "play first, second, both or none"),
    "level": Command("[N]", "simulations of the search for each move"),
    "variant": Command("[NAME]", "the search, such as alphazero or gumbel"),
    "temperature": Command("[T]", "0 plays the best move; 1 varies the moves"),
    "position": Command("TEXT", "set up a FEN, or moves from the start"),
    "save": Command("FILE", "write the game: .pgn, .sgf or .txt"),
    "load": Command("FILE", "read a game in one of these formats"),
    "quit": Command("", "end the program"),
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


def read_command(line: str) -> tuple[str, str] | None:
    """Returns the name of a command and its argument; `None` if the line is no command.

    Raises:
      ValueError: if an argument is missing, or there is one too many.
    """
    word, _, argument = line.partition(" ")
    name = _ALIASES.get(word.lower(), word.lower())
    if name not in COMMANDS:
        return None
    argument, expected = argument.strip(), COMMANDS[name].argument
    if argument and not expected:
        raise ValueError(f"{name} has no argument, but there is {argument[:40]!r}.")
    if expected and not argument and not expected.startswith("["):
        raise ValueError(f"{name} needs an argument: {name} {expected}.")
    return name, argument


def unknown(line: str, reason: str) -> str:
    """Returns the message for a line that is neither a command nor a legal move."""
    shown = repr(line if len(line) <= 40 else f"{line[:40]} ...")
    if not reason.startswith("not a move"):
        return f"{shown} is {reason}"
    meant = perhaps(line.split()[0].lower(), COMMANDS)
    return f"{shown} is {reason.rstrip('.')}; it is no command either{meant}. Type help."
