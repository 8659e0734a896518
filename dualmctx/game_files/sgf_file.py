"""Reads games in the Smart Game Format (SGF) of Go, Othello, Hex and Gomoku, and GGF of Othello.

Sources: SGF FF[4], red-bean.com/sgf, with its pages on Go and Hex. Only the main line is read:
variations, comments and marks are skipped. A game ends with an error where it is not understood.
"""

import functools
import re
import string
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from sgfmill import sgf_grammar

from dualmctx.errors import UserError
from dualmctx.game_files.game_record import GameRecord
from dualmctx.game_files.questions import Board
from dualmctx.game_files.sgf_text import ROOT, GameText, Property, properties_of, split_games
from games.records import record_of

# Python does not read numbers of thousands of digits.
_CELL = re.compile(r"([A-Za-z]{1,9})([0-9]{1,9})")
_COUNT = re.compile(r"[0-9]{1,9}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,9}([.,][0-9]{0,9})?|[.,][0-9]{1,9})")
_COLORS = {"B": "Black", "W": "White"}
_OTHER = {"B": "W", "W": "B"}
_SETUP = ("AB", "AW", "AE")
_RESIGNATIONS = ("resign", "forfeit")
# Fields of the results, and the properties that they show.
_SHOWN = {"black": "PB", "white": "PW", "result": "RE"}
_READ = {*_SHOWN.values(), "GM", "SZ", "KM", "HA", "TY", "BO"}
# The stones with which a game of Othello begins, by their cells.
_OTHELLO = {27: "W", 28: "B", 35: "B", 36: "W"}
# The same in GGF.
_GGF_START = f"8 {27 * '-'}O*{6 * '-'}*O{27 * '-'} *"


class _Rules(NamedTuple):
    """A game that can be read.

    Attributes:
      name: its name, as in `Board`.
      size: the default size of its board.
      max_size: the largest size: SGF's limit, or 25 in Go, whose columns have one letter.
      passes: whether an empty move is a pass, whose action is the first one after the cells.
      is_ggf: whether it is written in the Generic Game Format: all moves are in one node, each with
        an evaluation and a time after slashes.
    """

    name: str
    size: int
    max_size: int = 52
    passes: bool = False
    is_ggf: bool = False


# By the property GM. The columns of Go have one letter.
_GAMES = {
    "1": _Rules("go", 19, max_size=25, passes=True),
    "2": _Rules("othello", 8, passes=True),
    "4": _Rules("gomoku", 15),
    "11": _Rules("hex", 11),
    "Othello": _Rules("othello", 8, passes=True, is_ggf=True),
}


def read_sgf(file: BinaryIO, encoding: str | None = None) -> Iterator[GameRecord]:
    """Reads the games of a file opened for reading, one after another in bounded memory.

    Stones that are set up are played in turn; in Go, with passes of the player who has fewer. A
    pass is added between two moves of the same colour. Passes after the end of a game are left out.

    Args:
      file: the file.
      encoding: the encoding of the text; by default that of the property CA of each game.
    """
    return map(read_game, split_games(file, encoding))


def read_game(text: GameText) -> GameRecord:
    """Reads one game; see `read_sgf`."""
    return _record(*properties_of(text))._replace(end=text.end)


def _record(properties: list[Property], problem: str | None) -> GameRecord:
    root = {x.name: _text(x) for x in reversed(properties) if x.name in _READ and _text(x)}
    about = {name: root[key] for name, key in _SHOWN.items() if key in root}
    board = None
    try:
        if not properties and problem is not None:
            raise UserError(problem)
        rules = _rules(root.get("GM", "1"))
        board = Board(rules.name, _size(rules, root.get("SZ", str(rules.size))))
        if rules.is_ggf:
            _check_ggf(root.get("TY", "8"), root.get("BO", _GGF_START))
        game = _Game(rules, board.size)
        first = next((i for i, x in enumerate(properties) if x.name in _COLORS), len(properties))
        game.set_up(properties[:first], properties[first:], root.get("HA", ""))
    except UserError as error:
        return GameRecord(board=board, about=about, error=str(error), has_start=False)
    setup = len(game.actions)
    try:
        for x in properties[first:]:
            game.add(x)
    except UserError as error:
        problem = str(error)
    names = _names(rules.name, game.last_cell + 1)
    return GameRecord(
        moves=game.without_last_passes(),
        texts=[names[action] for action in game.actions],
        board=board,
        about=about,
        error=problem,
        komi=_komi(rules, root.get("KM", "")),
        setup=setup,
        passes=tuple(game.passes),
        places=[] if rules.is_ggf else [(node, 0) for node in game.nodes],
    )


@functools.cache
def _names(game: str, num_actions: int) -> list[str]:
    return record_of(game).names(num_actions)


class _Game:
    """The moves of a game.

    Attributes:
      actions: the moves, with those that set up stones, and with added passes.
      nodes: the node of each move, 0 if it is not in the file.
      passes: indices of the passes that were added between two moves.
      last_cell: the number of cells, which is the action of a pass.
    """

    def __init__(self, rules: _Rules, size: int) -> None:
        self.actions: list[int] = []
        self.nodes: list[int] = []
        self.passes: list[int] = []
        # The action of a pass.
        self.last_cell = size * size
        self._rules, self._size = rules, size
        self._color, self._number, self._node, self._is_resigned = "B", 1, 0, False

    def set_up(self, before: list[Property], moves: list[Property], handicap: str) -> None:
        """Sets up the position before the first move.

        Args:
          before: the properties before the first move.
          moves: the others.
          handicap: the property HA, or an empty text.

        Raises:
          ValueError: if the position is not known, or the game does not allow it.
        """
        stones: dict[int, str] = {}
        color = ""
        for x in before:
            for text in filter(None, map(_value, x.values if x.name in _SETUP else ())):
                for cell in self._cells(x.name, text):
                    stones.pop(cell, None)
                    stones |= {} if x.name == "AE" else {cell: x.name[1]}
            color = _text(x)[:1].upper() if x.name == "PL" else color
        colors = [x.name for x in moves if x.name in _COLORS]
        if self._rules.name != "go":
            self._set_up_in_turn(stones, color, colors)
            return
        if handicap and not _COUNT.fullmatch(handicap):
            raise UserError(f"HA is {handicap[:20]!r}; it must be a number of stones")
        number, played = int(handicap or 0), [*colors, "W"].index("W")
        if number > max(1, played) and not stones:
            raise UserError(f"HA[{number}] is a handicap, but no stones (AB) are set up")
        if stones or color:
            next_color = color or ("W" if number > 1 else "B")
            self._place(stones, colors[0] if colors else next_color)

    def _set_up_in_turn(self, stones: dict[int, str], color: str, colors: list[str]) -> None:
        """Sets up the position of a game in which nobody may pass at will."""
        is_othello = self._rules.name == "othello"
        if is_othello and stones == _OTHELLO:
            return
        numbers = [[*stones.values()].count(x) for x in _COLORS]
        next_color = [*colors, color or "BW"[numbers[0] > numbers[1]]][0]
        names = sorted({f"A{x}" for x in stones.values()}) + ["PL"] * (color == "W")
        if names and (is_othello or numbers[0] - numbers[1] != (next_color == "W")):
            in_turn = (
                "must set up as many stones of Black as of White, or one more if White is next"
            )
            rule = "must start from its first position" if is_othello else in_turn
            raise UserError(
                f"{names[0]} sets up stones or the player; a game of {self._rules.name} {rule}"
            )
        if names:
            self._place(stones, next_color)

    def _place(self, stones: dict[int, str], color: str) -> None:
        """Places stones in turn, so that a colour moves next; the other one has the last move.

        Who has fewer stones passes at first, so that no two passes follow each other.
        """
        black, white = ([x for x, y in stones.items() if y == name] for name in _COLORS)
        is_odd = color == "W"
        turns = max(len(black), len(white) + is_odd)
        black = [self.last_cell] * (turns - len(black)) + black
        white = [self.last_cell] * (turns - is_odd - len(white)) + white
        self.actions = [(white if x % 2 else black)[x // 2] for x in range(2 * turns - is_odd)]
        self.nodes = [0] * len(self.actions)
        self._color = color

    def _cells(self, name: str, text: str) -> Sequence[int]:
        """Returns the cells of a point or of a rectangle."""
        try:
            corners = [divmod(self._cell(x), self._size) for x in text.split(":", 1)]
        except UserError as error:
            raise UserError(f"{name}[{text[:20]}] is {error}") from None
        rows, columns = (range(min(x), max(x) + 1) for x in zip(*corners, strict=True))
        return [row * self._size + column for row in rows for column in columns]

    def add(self, x: Property) -> None:
        """Adds a property from the first move on.

        Raises:
          ValueError: if it is not a possible continuation of the game.
        """
        if x.name in _SETUP or (x.name in ROOT and x.node > 1):
            raise UserError(f"{x.name} cannot follow move {self._number - 1}")
        if x.name == "PL" and x.node > 1 and _text(x)[:1].upper() != self._color:
            raise UserError(f"PL changes the player after move {self._number - 1}")
        if x.name not in _COLORS:
            return
        text = _text(x).partition("/")[0] if self._rules.is_ggf else _text(x)
        where = f"move {self._number}, {text[:40]!r},"
        if (x.node == self._node and not self._rules.is_ggf) or len(x.values) > 1:
            raise UserError(f"{where} is not the only move of its node")
        if self._is_resigned:
            raise UserError(f"{where} comes after a resignation")
        if text.lower() in _RESIGNATIONS:
            self._is_resigned = True
            return
        if x.name != self._color:
            self._pass(x.name)
        try:
            self.actions.append(self._action(text))
        except UserError as error:
            raise UserError(f"{where} is {error}") from None
        self.nodes.append(x.node)
        self._color, self._node, self._number = _OTHER[x.name], x.node, self._number + 1

    def _pass(self, color: str) -> None:
        """Adds a pass before a move of a colour that is not to move."""
        if not self._rules.passes or not self.actions:
            other = _COLORS[self._color]
            raise UserError(f"move {self._number} is by {_COLORS[color]}; it is {other}'s turn")
        # In Othello, the rules demand it.
        self.passes += [len(self.actions)] * (self._rules.name == "go")
        self.actions.append(self.last_cell)
        self.nodes.append(0)

    def without_last_passes(self) -> list[int]:
        """Returns the moves without passes after the end of a game of Go."""
        is_pass = [action == self.last_cell for action in self.actions]
        number = len(is_pass) - ([*is_pass[::-1], False].index(False))
        is_go = self._rules.name == "go"
        return self.actions[: number + 2] if is_go else self.actions

    def _action(self, text: str) -> int:
        """Returns the action of a move: its cell, row by row from the top left; pass or swap."""
        name, lower = self._rules.name, text.lower()
        is_pass = lower in ("", "pass", "pa" if self._rules.is_ggf else "") or (
            text == "tt" and self._size <= 19
        )
        if (self._rules.passes and is_pass) or (name == "hex" and lower == "swap-pieces"):
            return self.last_cell
        if name == "hex" and lower == "swap-sides":
            raise UserError("not supported: write the game with swap-pieces")
        return self._cell(text)

    def _cell(self, text: str) -> int:
        name, size, letters = self._rules.name, self._size, string.ascii_letters
        cell = _CELL.fullmatch(text)
        if cell is not None and name != "go":
            column, row = _column(cell[1].lower()), int(cell[2]) - 1
        elif len(text) == 2 and text.isascii() and text.isalpha() and name != "hex":
            column, row = letters.index(text[0]), letters.index(text[1])
        else:
            raise UserError(f"not a move of {name}")
        if not (0 <= column < size and 0 <= row < size):
            raise UserError(f"not on the board, which has {size} columns and rows")
        return row * size + column


def _text(x: Property) -> str:
    return _value(x.values[0])


def _value(data: bytes) -> str:
    return sgf_grammar.simpletext_value(data).decode(errors="replace").strip()


def _rules(kind: str) -> _Rules:
    if kind not in _GAMES:
        known = ", ".join(f"{key} ({rules.name})" for key, rules in _GAMES.items())
        raise UserError(f"GM is {kind}; it must be one of {known}")
    return _GAMES[kind]


def _check_ggf(kind: str, board: str) -> None:
    """Checks that a game in GGF has the usual board and the usual first position."""
    if kind != "8" or "".join(board.split()) != "".join(_GGF_START.split()):
        raise UserError(
            f"TY is {kind[:20]!r} and BO {board[:80]!r}; games of Othello are read on 8×8 from the "
            "start"
        )


def _komi(rules: _Rules, text: str) -> float | None:
    """Parses the komi of a game of Go; returns `None` if there is no number."""
    if rules.name != "go" or not _NUMBER.fullmatch(text):
        return None
    # Some programs write a decimal comma.
    return float(text.replace(",", "."))


def _size(rules: _Rules, text: str) -> int:
    columns, _, rows = text.partition(":")
    is_square = _COUNT.fullmatch(columns) and rows in ("", columns)
    if not is_square or not 1 <= int(columns) <= rules.max_size:
        raise UserError(
            f"SZ is {text[:20]!r}; in {rules.name} it must be a number from 1 to {rules.max_size}"
        )
    return int(columns)


def _column(letters: str) -> int:
    """Returns the number of a column, from 0; the column after z is aa."""
    number = 0
    for letter in letters:
        number = 26 * number + string.ascii_lowercase.index(letter) + 1
    return number - 1
