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

import games
from dualmctx.console import printable, unfiltered
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.records import EXTENSIONS, record_formats, write_record
from dualmctx.protocols.running_game import board_text
from dualmctx.types import Environment
from games.pictures import player_names

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

_wrap = functools.partial(
    textwrap.fill, width=WIDTH, break_long_words=False, break_on_hyphens=False
)


class Session:
    """A game of a person, who has the first side, against a search.

    Attributes:
      env: the game.
      players: the names of its two sides.
      actions: the moves.
      states: the unbatched states from the start of the game to the position after the moves.
    """

    def __init__(self, evaluator: Evaluator, opponent: str) -> None:
        """Begins a game against the search of an evaluator; `opponent` describes it."""
        self.env = evaluator.env
        self.players = player_names(self.env.id)
        self.actions: list[int] = []
        self.states = [jax.device_get(jax.jit(self.env.init)(jax.random.PRNGKey(0)))]
        self._evaluator, self._opponent = evaluator, opponent
        self._step = jax.jit(self.env.step)
        self._saved: set[Path] = set()

    @property
    def is_over(self) -> bool:
        """Whether the game is over."""
        return bool(self.states[-1].terminated or self.states[-1].truncated)

    def side(self, index: int = -1) -> int:
        """Returns the side to move in a state: 0 for the person, 1 for the search."""
        return int(self.states[index].current_player != self.states[0].current_player)

    def result(self) -> int:
        """Returns the result for the person: 1 for a win, 0 for a draw, -1 for a loss."""
        return int(np.sign(self.states[-1].rewards[int(self.states[0].current_player)]))

    def legal(self) -> dict[int, str]:
        """Returns the names of the legal moves by action; raises a ValueError if there is none."""
        if self.is_over:
            raise UserError("The game is over: type undo, save FILE or quit.")
        actions = np.flatnonzero(self.states[-1].legal_action_mask).tolist()
        return {action: games.name_action(self.env, self.states[-1], action) for action in actions}

    def read_move(self, text: str) -> int:
        """Returns the action of a legal move; raises a ValueError if the text is none."""
        legal = self.legal()
        try:
            action = games.parse_move(self.env, text, self.states[-1])
        except UserError as error:
            reason = re.sub("^move 1, (.*?), is ", r"\1 is ", str(error))
            raise UserError(f"{reason} Type help for the commands.") from None
        if action not in legal:
            raise UserError(f"{text!r} is illegal here: type moves for the legal ones.")
        return action

    def play(self, action: int) -> None:
        """Plays a legal move."""
        self.states.append(jax.device_get(self._step(self.states[-1], action)))
        self.actions.append(action)

    def search(self) -> tuple[int, str]:
        """Searches the position; returns the move, and its name with the value of the search.

        Raises:
          ValueError: if an output of the network is not finite, or the game is over.
        """
        legal = self.legal()
        found = self._evaluator(jax.tree.map(lambda x: np.asarray(x)[None], self.states[-1]))
        if not found.is_finite[0]:
            raise UserError(
                "the output of the network is NaN or infinite in this position; use another "
                "checkpoint or train again"
            )
        action = int(found.action[0])
        return action, f"{legal[action]} (value {float(found.value[0]):+z.2f})"

    def answer(self) -> None:
        """Plays the moves of the search until the person is to move or the game is over."""
        while not self.is_over and self.side() == 1:
            action, text = self.search()
            print(f"\n{self.players[1]} plays {text}")
            self.play(action)

    def undo(self) -> None:
        """Takes back the last move of the person, and the answer to it."""
        own = [index for index in range(len(self.actions)) if self.side(index) == 0]
        if not own:
            raise UserError("There is no move of yours to take back.")
        del self.actions[own[-1] :], self.states[own[-1] + 1 :]

    def save(self, name: str) -> None:
        """Writes the game to a file, whose extension chooses the format.

        Raises:
          ValueError: if the extension is unknown.
          OSError: if the file cannot be written, or exists and is not of this session.
        """
        file = Path(os.path.expanduser(name))
        formats = {f".{EXTENSIONS[format]}": format for format in record_formats(self.env)}
        if file.suffix not in formats:
            known = " or ".join(formats)
            raise UserError(f"The file is {name[:80]}: give a name that ends in {known}.")
        result = ("1/2-1/2", "1-0", "0-1")[self.result()] if self.is_over else "*"
        headers = {"event": "dualmctx play", "date": datetime.date.today().isoformat()}
        headers |= {"first": "person", "second": self._opponent, "result": result}
        format = formats[file.suffix]
        record = write_record(self.env, self.actions, format=format, headers=headers)
        with file.open("w" if file in self._saved else "x", encoding="utf-8") as stream:
            stream.write(record)
        self._saved.add(file)
        print(f"The game is in {file}.")


def play(evaluator: Evaluator, opponent: str, lines: TextIO) -> None:
    """Plays a game until `quit` or the end of the input.

    Args:
      evaluator: the network and its search, for one position.
      opponent: a description of both.
      lines: moves and commands.

    Raises:
      ValueError: if an output of the network is not finite.
      KeyboardInterrupt: after Ctrl-C or SIGTERM.
    """
    # Neither a terminal without Unicode nor wrong bytes in the input end the program.
    for stream in (lines, unfiltered(sys.stdout)):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    session, shown = Session(evaluator, opponent), -1
    print(_wrap(f"You play {session.players[0]} and move first, against {opponent}."))
    print(f"Type a move ({_notation(session.env)}), or help.\n")
    while True:
        session.answer()
        if shown != len(session.actions):
            shown = len(session.actions)
            _show_board(session)
        line = _read("game over> " if session.is_over else f"{session.players[0]}> ", lines)
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
    """Runs a command or plays a move; raises a ValueError if it is not possible now."""
    name, _, argument = line.partition(" ")
    match name.lower(), argument.strip():
        case "", "":
            pass
        case "help", "":
            _show_help(session.env)
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
            session.play(session.read_move(line))


def _show_help(env: Environment) -> None:
    print(f"Type a move ({_notation(env)}) or a command:")
    for command, summary in COMMANDS.items():
        print(f"  {command:<9}  {summary}")
    print("Values are those of the player to move, from -1 (loss) to 1 (win).")


def _notation(env: Environment) -> str:
    """Returns how a move is written."""
    known = _NOTATIONS.get("go" if env.id.startswith("go_") else env.id)
    return known or "its name in the list that moves prints"


def _show_board(session: Session) -> None:
    """Prints the board and, if the game is over, its result."""
    print(board_text(session.env, session.states[-1], (None, *session.states)[-2]))
    if session.is_over:
        print(("The game is drawn.", "You have won.", "You have lost.")[session.result()])
