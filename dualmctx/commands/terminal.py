"""`dualmctx play --terminal`: a game against a network in the terminal, without a browser."""

import datetime
import io
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any, TextIO

import jax
import numpy as np

import games
from dualmctx.console import printable, unfiltered
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.questions import perhaps
from dualmctx.evaluation.records import EXTENSIONS, record_formats, write_record
from dualmctx.types import Environment
from games.pictures import picture, player_names

WIDTH = 80
"""The largest number of columns of a line."""
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
_MAX_LISTED = 20
_PREFIX = re.compile("^move 1, (.*?), is ")
COMMANDS = {
    "help": "show this list",
    "moves": "list the legal moves",
    "hint": "show the move that the search would play",
    "undo": "take back your last move and the answer to it",
    "save FILE": "write the game: .pgn, .sgf or .txt",
    "quit": "end the program",
}
"""The commands besides moves, with their descriptions."""


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

    def legal(self) -> dict[int, str]:
        """Returns the names of the legal moves by action; raises a ValueError if there is none."""
        if self.is_over:
            raise UserError("The game is over: type undo, save FILE or quit.")
        actions = np.flatnonzero(self.states[-1].legal_action_mask).tolist()
        return {action: games.name_action(self.env, self.states[-1], action) for action in actions}

    def read_move(self, text: str) -> int:
        """Returns the action of a legal move.

        Raises:
          ValueError: if the text is no move or is ambiguous, or the move is illegal.
        """
        legal = self.legal()
        try:
            action = games.parse_move(
                self.env, text, self.states[-1] if games.is_chess(self.env) else None
            )
        except UserError as error:
            reason = _PREFIX.sub(r"\1 is ", str(error))
            if " is not a move" in reason:
                meant = perhaps(text.split()[0], COMMANDS)
                reason = f"{reason.rstrip('.')}; it is no command either{meant}. Type help."
            raise UserError(reason) from None
        if action in legal:
            return action
        listed = "type moves to see them"
        if len(legal) <= _MAX_LISTED:
            listed = " ".join(legal.values())
        raise UserError(f"{text!r} is illegal here; there are {len(legal)} legal moves: {listed}")

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
        return action, f"{legal[action]} (value {describe_value(float(found.value[0]))})"

    def result(self) -> int:
        """Returns the result for the person: 1 for a win, 0 for a draw, -1 for a loss."""
        return int(np.sign(self.states[-1].rewards[int(self.states[0].current_player)]))

    def show_board(self) -> None:
        """Prints the board and, if the game is over, its result."""
        before = self.states[-2] if self.actions else None
        print(board_text(self.env, self.states[-1], before))
        if self.is_over:
            print(("The game is drawn.", "You have won.", "You have lost.")[self.result()])

    def help(self) -> None:
        """Lists the commands."""
        print(f"Type a move ({describe_notation(self.env)}) or a command:")
        for command, summary in COMMANDS.items():
            print(f"  {command:<9}  {summary}")
        print("Values are those of the player to move, from -1 (loss) to 1 (win).")

    def list_moves(self) -> None:
        """Lists the legal moves."""
        names = self.legal().values()
        print(wrap(f"{len(names)} legal moves: {' '.join(names)}", "  "))

    def hint(self) -> None:
        """Shows the move that the search would play."""
        print(f"The search would play {self.search()[1]}.")

    def undo(self) -> None:
        """Takes back the last move of the person, and the answer to it."""
        own = [index for index in range(len(self.actions)) if self.side(index) == 0]
        if not own:
            raise UserError("There is no move of yours to take back.")
        del self.actions[own[-1] :], self.states[own[-1] + 1 :]
        self.show_board()

    def save(self, name: str) -> None:
        """Writes the game to a file, whose extension chooses the format.

        Raises:
          ValueError: if the extension is unknown, or the file exists and is not of this session.
          OSError: if the file cannot be written.
        """
        file = Path(os.path.expanduser(name))
        endings = {f".{EXTENSIONS[format]}": format for format in record_formats(self.env)}
        if file.suffix not in endings:
            known = " or ".join(endings)
            raise UserError(f"The file is {name[:80]}: give a name that ends in {known}.")
        if file.exists() and file not in self._saved:
            raise UserError(f"{file} exists: give another name, or remove it.")
        result = ("1/2-1/2", "1-0", "0-1")[self.result()] if self.is_over else "*"
        headers = {"event": "dualmctx play", "date": datetime.date.today().isoformat()}
        headers |= {"first": "person", "second": self._opponent, "result": result}
        format = endings[file.suffix]
        record = write_record(self.env, self.actions, format=format, headers=headers)
        file.write_text(record, encoding="utf-8")
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
    session = Session(evaluator, opponent)
    print(wrap(f"You play {session.players[0]} and move first, against {opponent}."))
    print(f"Type a move ({describe_notation(session.env)}), or help.\n")
    session.show_board()
    while True:
        _answer(session)
        line = _read("game over> " if session.is_over else f"{session.players[0]}> ", lines)
        if line is None or line.lower() == "quit":
            return
        try:
            _obey(session, line)
        except UserError as error:
            print(wrap(str(error)))
        except OSError as error:
            print(wrap(f"{error.filename or 'file'}: {error.strerror}"))


def _answer(session: Session) -> None:
    """Plays the moves of the search until the person is to move or the game is over."""
    while not session.is_over and session.side() == 1:
        action, text = session.search()
        print(f"\n{session.players[1]} plays {text}")
        session.play(action)
        session.show_board()


def _read(prompt: str, lines: TextIO) -> str | None:
    """Returns the next line without spaces around it; `None` at the end of the input."""
    print(prompt, end="", flush=True)
    try:
        line = lines.readline()
    except KeyboardInterrupt:
        print()  # ends the line of the prompt
        raise
    if not line:
        print()
        return None
    # A terminal shows typed text itself; text from a pipe or file is shown here.
    if not lines.isatty():
        print(printable(line.strip()), flush=True)
    return line.strip()


def _obey(session: Session, line: str) -> None:
    """Plays a move or runs a command.

    Raises:
      ValueError: if the line is neither a legal move nor a command that is possible now.
      OSError: if a file cannot be written.
    """
    name, _, argument = line.partition(" ")
    commands = {"help": session.help, "moves": session.list_moves}
    commands |= {"hint": session.hint, "undo": session.undo}
    command = commands.get(name.lower())
    if command is not None and not argument:
        command()
    elif name.lower() == "save" and argument:
        session.save(argument.strip())
    elif line:
        session.play(session.read_move(line))
        # The answer of the search shows the board, too.
        if session.is_over or session.side() == 0:
            session.show_board()


def wrap(text: str, indent: str = "") -> str:
    """Breaks text into lines; further lines begin with `indent`."""
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def describe_notation(env: Environment) -> str:
    """Returns how a move is written."""
    known = _NOTATIONS.get("go" if env.id.startswith("go_") else env.id)
    return known or "its name in the list that moves prints"


def board_text(env: Environment, state: Any, before: Any) -> str:
    """Returns the caption and the board, with the last move in brackets.

    Args:
      env: the game.
      state: the unbatched state.
      before: the state before the last move; `None` without moves.
    """
    if env.id == "hex":
        return _hex(state, before)
    try:
        return games.to_text(state, before)
    except UserError as error:
        # A game of the user may have no picture.
        return f"{env.id}: {error}"


def _hex(state: Any, before: Any) -> str:
    """Each row begins half a cell further to the right than the one above, below the letters."""
    drawn = picture(state, before)
    letters = "abcdefghijklmnopqrstuvwxyz"[: len(drawn.rows)]
    lines = [drawn.caption, f"    {' '.join(letters)}"]
    for y, row in enumerate(drawn.rows):
        cells = list(enumerate(row))[y // 2 :]
        marked = {x for x, _ in cells if (y, x) in drawn.marked}
        spaces = ("[" if x in marked else "]" if x - 1 in marked else " " for x, _ in cells)
        text = "".join(space + cell for space, (_, cell) in zip(spaces, cells, strict=True))
        end = "]" if cells[-1][0] in marked else ""
        lines.append(f"{' ' * y}{y + 1:>3}{text}{end}")
    return "\n".join(lines)


def describe_value(value: float) -> str:
    """Returns a value with its sign."""
    # Adding 0 converts -0 to 0.
    return f"{round(value, 2) + 0.0:+.2f}"
