"""`dualmctx play --terminal`: a game against a network in the terminal, without a browser."""

import datetime
import functools
import io
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import TextIO

import jax
import numpy as np

from dualmctx.console import printable, unfiltered
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.game_files.records import EXTENSIONS, record_formats, write_record
from dualmctx.protocols.running_game import RunningGame, board_text
from dualmctx.runs.atomic_io import atomic_write_text, require_new
from dualmctx.types import Environment
from games.pictures import player_names
from games.records import is_go

WIDTH = 80
"""The largest number of columns of a line."""
COMMANDS = {
    "help": "show this list",
    "moves": "list the legal moves",
    "hint": "show the move that the search would play",
    "undo": "take back your last move and the answer to it",
    "save FILE": "write the game: .pgn, .sgf or .txt",
    "quit": "end the program",
}
"""The commands besides moves, with their descriptions."""
_NOTATIONS = {
    "connect_four": "the column, 1 to 7 from the left",
    "tic_tac_toe": "the cell, 1 to 9, row by row from the top left",
    "connect2": "the cell, 1 to 4 from the left",
    "othello": "the square, such as d3, or pass",
    "hex": "the cell, such as b2, or swap",
    "go": "the point, such as D4, or pass",
    "nim": "the number of stones that you take",
    "hsr": "the rung, or the answer: break or no-break",
    "chess": "e2e4, e7e8q, Nf3, exd5, e8=Q or O-O",
    "gardner_chess": "b2b3, b4b5q, Nc3, cxd3 or b5=Q",
}
_PERSON, _SEARCH = 0, 1
_RESULTS = {_PERSON: ("1-0", "You have won."), _SEARCH: ("0-1", "You have lost.")}
_DRAWN = "1/2-1/2", "The game is drawn."

_wrap = functools.partial(
    textwrap.fill, width=WIDTH, break_long_words=False, break_on_hyphens=False
)


class Session:
    """A game of a person, who has the first side, against a search.

    Attributes:
      game: the game.
      players: the names of its two sides.
    """

    def __init__(self, evaluator: Evaluator, opponent: str) -> None:
        """Begins a game against the search of an evaluator; `opponent` describes it."""
        self.game = RunningGame(evaluator.env)
        self.players = player_names(evaluator.env.id)
        self._evaluator, self._opponent = evaluator, opponent
        self._saved: set[Path] = set()

    def legal(self) -> dict[int, str]:
        """Returns the names of the legal moves by action; raises a UserError if there is none."""
        if self.game.is_over:
            raise UserError("The game is over: type undo, save FILE or quit.")
        return {action: self.game.name(action) for action in self.game.legal()}

    def play(self, text: str) -> None:
        """Plays the move of the person; raises a UserError if it is none, or illegal."""
        self.legal()
        try:
            self.game.play(self.game.read(text))
        except UserError as error:
            reason = re.sub("^move 1, (.*?), is ", r"\1 is ", str(error)).removesuffix(".")
            raise UserError(f"{reason}. Type moves for the legal moves, or help.") from None

    def search(self) -> tuple[int, str]:
        """Searches the position; returns the move, and its name with the value of the search."""
        legal = self.legal()
        found = self._evaluator(jax.tree.map(lambda x: np.asarray(x)[None], self.game.state))
        if not found.is_finite[0]:
            raise UserError(
                "the output of the network is NaN or infinite in this position; use another "
                "checkpoint or train again"
            )
        action = int(found.action[0])
        return action, f"{legal[action]} (value {float(found.value[0]):+z.2f})"

    def answer(self) -> None:
        """Plays the moves of the search until the person is to move or the game is over."""
        while not self.game.is_over and self.game.side() == _SEARCH:
            action, text = self.search()
            print(f"\n{self.players[_SEARCH]} plays {text}")
            self.game.play(action)

    def undo(self) -> None:
        """Takes back the last move of the person, and the answer to it."""
        number = len(self.game.actions)
        own = [index for index in range(number) if self.game.side(index) == _PERSON]
        if not own:
            raise UserError("There is no move of yours to take back.")
        self.game.undo(number - own[-1])

    def save(self, name: str) -> None:
        """Writes the game to a file, new or of this session, whose extension chooses the format."""
        file, game = Path(os.path.expanduser(name)), self.game
        formats = {f".{EXTENSIONS[format]}": format for format in record_formats(game.env)}
        if file.suffix not in formats:
            known = " or ".join(formats)
            raise UserError(f"The file is {name[:80]}: give a name that ends in {known}.")
        headers = {"event": "dualmctx play", "date": datetime.date.today().isoformat()}
        headers |= {"first": "person", "second": self._opponent}
        headers |= {"result": self.result[0] if game.is_over else "*"}
        record = write_record(game.env, game.actions, format=formats[file.suffix], headers=headers)
        if file not in self._saved:
            require_new(file)
        atomic_write_text(file, record)
        self._saved.add(file)
        print(f"The game is in {file}.")

    @property
    def result(self) -> tuple[str, str]:
        """The result of the game, for a record and as a sentence."""
        winner = self.game.winner
        return _DRAWN if winner is None else _RESULTS[winner]

    def show(self) -> None:
        """Prints the board and, if the game is over, its result."""
        print(board_text(self.game.env, self.game.state, (None, *self.game.states)[-2]))
        if self.game.is_over:
            print(self.result[1])


def play(evaluator: Evaluator, opponent: str, lines: TextIO) -> None:
    """Plays a game until `quit` or the end of the input.

    Args:
      evaluator: the network and its search, for one position.
      opponent: a description of both.
      lines: moves and commands.

    Raises:
      UserError: if an output of the network is not finite.
      KeyboardInterrupt: after Ctrl-C or SIGTERM.
    """
    # Neither a terminal without Unicode nor wrong bytes in the input end the program.
    for stream in (lines, unfiltered(sys.stdout)):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    session, shown = Session(evaluator, opponent), -1
    game = session.game
    print(_wrap(f"You play {session.players[0]} and move first, against {opponent}."))
    print(f"Type a move ({_notation(game.env)}), or help.\n")
    while True:
        session.answer()
        if shown != len(game.actions):
            shown = len(game.actions)
            session.show()
        line = _read("game over> " if game.is_over else f"{session.players[0]}> ", lines)
        if line is None or line.lower() == "quit":
            return
        try:
            _obey(session, line)
        except UserError as error:
            print(_wrap(str(error)))
        except OSError as error:
            print(_wrap(f"{error.filename or 'file'}: {error.strerror}"))


def _read(prompt: str, lines: TextIO) -> str | None:
    """Returns the next line without spaces around it; `None` at the end of the input."""
    print(prompt, end="", flush=True)
    try:
        line = lines.readline()
    except KeyboardInterrupt:
        print()  # ends the line of the prompt
        raise
    # A terminal shows typed text itself; text from a pipe or file is shown here.
    if not line or not lines.isatty():
        print(printable(line.strip()), flush=True)
    return line.strip() if line else None


def _obey(session: Session, line: str) -> None:
    """Runs a command or plays a move; raises a UserError if it is not possible now."""
    name, _, argument = line.partition(" ")
    match name.lower(), argument.strip():
        case "", "":
            pass
        case "help", "":
            _show_help(session.game.env)
        case "moves", "":
            names = session.legal().values()
            text = f"{len(names)} legal moves: {' '.join(names)}"
            print(_wrap(text, subsequent_indent="  "))
        case "hint", "":
            print(f"The search would play {session.search()[1]}.")
        case "undo", "":
            session.undo()
        case "save", file if file:
            session.save(file)
        case _:
            session.play(line)


def _show_help(env: Environment) -> None:
    print(f"Type a move ({_notation(env)}) or a command:")
    for command, summary in COMMANDS.items():
        print(f"  {command:<9}  {summary}")
    print("Values are those of the player to move, from -1 (loss) to 1 (win).")


def _notation(env: Environment) -> str:
    """Returns how a move is written."""
    known = _NOTATIONS.get("go" if is_go(env) else env.id)
    return known or "its name in the list that moves prints"
