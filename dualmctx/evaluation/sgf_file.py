"""Reads games in the Smart Game Format (SGF) of Go, Othello, Hex and Gomoku.

Sources: SGF FF[4], red-bean.com/sgf, with its pages on Go and Hex. Only the main line is read:
variations, comments and marks are skipped. Positions that are set up with stones cannot be played
and are errors.
"""

import re
import string
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from dualmctx.errors import UserError
from dualmctx.evaluation.game_record import GameRecord, decode
from dualmctx.evaluation.questions import Board
from games.move_names import move_names

_BLOCK = 2**16
_MAX_BYTES = 2**24
_MARKS = re.compile(rb"\\.|[\[\]()]", re.DOTALL)
# A search never begins inside a name, so that long names take no long time.
_PROPERTY = re.compile(r"(?<![A-Za-z])([A-Za-z]++)((?:\s*\[(?:\\.|[^\]\\])*\])+)", re.DOTALL)
_VALUE = re.compile(r"\[((?:\\.|[^\]\\])*)\]", re.DOTALL)
_CELL = re.compile(r"([A-Za-z]+)([0-9]+)")
_NUMBER = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)")
_SETUP = ("AB", "AW", "AE")
_COLORS = {"B": "Black", "W": "White"}
# Fields of the results, and the properties that they show.
_SHOWN = {"black": "PB", "white": "PW", "result": "RE"}


class _Rules(NamedTuple):
    """A game that can be read.

    Attributes:
      name: its name, with which the name of its environment begins.
      size: the default size of its board.
      max_size: the largest size: SGF's limit, or 25 in Go, whose columns have one letter.
      passes: whether an empty move is a pass, whose action is the first one after the cells.
      skips: whether a player without a move is passed over without an entry.
    """

    name: str
    size: int
    max_size: int = 52
    passes: bool = False
    skips: bool = False


# By the property GM.
_GAMES = {
    "1": _Rules("go", 19, max_size=25, passes=True),
    "2": _Rules("othello", 8, passes=True, skips=True),
    "4": _Rules("gomoku", 15),
    "11": _Rules("hex", 11),
}
Properties = list[tuple[str, list[str]]]


def read_sgf(file: BinaryIO) -> Iterator[GameRecord]:
    """Reads the games of a file opened for reading, one after another in bounded memory."""
    for data, end in _split_trees(file):
        properties: Properties = []
        try:
            if data is None:
                raise UserError(f"it is longer than {_MAX_BYTES} bytes, or not closed")
            properties = _main_line(decode(data))
            record = _record(properties)
        except ValueError as error:
            record = GameRecord(error=str(error))
        values = dict(properties)
        about = {name: values[key][0].strip() for name, key in _SHOWN.items() if key in values}
        yield record._replace(about={k: v for k, v in about.items() if v}, end=end)


def _split_trees(file: BinaryIO) -> Iterator[tuple[bytes | None, int]]:
    """Yields the first line of play of each game of a collection, and the offset of its end.

    The first line of play ends at the first closing parenthesis, because the first variation is
    always the main one. `None` stands for a game that is too long or not closed.
    """
    tree, rest, offset = b"", b"", 0
    depth, in_value, is_done = 0, False, False
    while block := file.read(_BLOCK):
        data, start = rest + block, 0
        # An escaped character may be in the next block.
        num_escapes = len(data) - len(data.rstrip(b"\\"))
        rest = data[len(data) - num_escapes % 2 :]
        data = data[: len(data) - num_escapes % 2]
        for mark in _MARKS.finditer(data):
            sign, end = mark[0], mark.end()
            if in_value:
                in_value = sign != b"]"
            elif sign == b"[":
                in_value = depth > 0
            elif sign == b"(":
                start = start if depth else end
                depth += 1
            elif sign == b")" and depth:
                if not is_done:
                    tree, is_done = tree + data[start : mark.start()], True
                depth -= 1
                if not depth:
                    yield (tree if len(tree) <= _MAX_BYTES else None), offset + end
                    tree, is_done = b"", False
        if depth and not is_done and len(tree) <= _MAX_BYTES:
            tree += data[start:]
        offset += len(data)
    if depth:
        yield None, offset


def _main_line(text: str) -> Properties:
    """Returns the properties of all nodes, with their values; older names are shortened."""
    found = []
    for name, values in _PROPERTY.findall(text):
        short = "".join(letter for letter in name if letter.isupper())
        found.append((short, [re.sub(r"\\(.)", r"\1", x) for x in _VALUE.findall(values)]))
    return found


def _record(properties: Properties) -> GameRecord:
    root = {name: values[0].strip() for name, values in reversed(properties)}
    kind = root.get("GM", "1")
    if kind not in _GAMES:
        known = ", ".join(f"{key} ({rules.name})" for key, rules in _GAMES.items())
        raise UserError(f"GM is {kind}; it must be one of {known}")
    rules = _GAMES[kind]
    size = _size(rules, root.get("SZ", str(rules.size)))
    actions: list[int] = []
    color = "B"
    for name, values in properties:
        if name in _SETUP:
            raise UserError(f"{name} sets up stones; a game must start from the empty board")
        if name not in _COLORS:
            continue
        number, text = len(actions) + 1, values[0].strip()
        if name != color and not rules.skips:
            raise UserError(f"move {number} is by {_COLORS[name]}; it is {_COLORS[color]}'s turn")
        if text.lower() in ("resign", "forfeit"):
            break
        actions += [size * size] if name != color else []
        try:
            actions.append(_action(rules, size, text))
        except ValueError as error:
            raise UserError(f"move {number}, {text[:40]!r}, is {error}") from None
        color = "W" if name == "B" else "B"
    board = Board(rules.name, size)
    names = move_names(rules.name).names(size * size + 1)
    texts = [names[action] for action in actions]
    return GameRecord(actions, texts, None, board, komi=_komi(rules, root.get("KM", "")))


def _komi(rules: _Rules, text: str) -> float | None:
    """Parses the komi of a game of Go; returns `None` if there is no number."""
    if rules.name != "go" or not _NUMBER.fullmatch(text):
        return None
    # Some programs write a decimal comma.
    return float(text.replace(",", "."))


def _size(rules: _Rules, text: str) -> int:
    columns, _, rows = text.partition(":")
    is_square = columns.isdecimal() and rows in ("", columns)
    if not is_square or not 1 <= int(columns) <= rules.max_size:
        raise UserError(
            f"SZ is {text[:20]!r}; in {rules.name} it must be a number from 1 to {rules.max_size}"
        )
    return int(columns)


def _action(rules: _Rules, size: int, text: str) -> int:
    """Returns the action of a move: its cell, row by row from the top left; then pass or swap."""
    if rules.passes and (text == "" or text.lower() == "pass" or (text == "tt" and size <= 19)):
        return size * size
    if rules.name == "hex" and text.lower() == "swap-pieces":
        return size * size
    if rules.name == "hex" and text.lower() == "swap-sides":
        raise UserError("not supported: write the game with swap-pieces")
    cell = _CELL.fullmatch(text)
    letters = string.ascii_letters
    if cell is not None and rules.name != "go":
        column, row = _column(cell[1].lower()), int(cell[2]) - 1
    elif len(text) == 2 and text.isascii() and text.isalpha() and rules.name != "hex":
        column, row = letters.index(text[0]), letters.index(text[1])
    else:
        raise UserError(f"not a move of {rules.name}")
    if not (0 <= column < size and 0 <= row < size):
        raise UserError(f"not on the board, which has {size} columns and rows")
    return row * size + column


def _column(letters: str) -> int:
    """Returns the number of a column, from 0; the column after z is aa."""
    number = 0
    for letter in letters:
        number = 26 * number + string.ascii_lowercase.index(letter) + 1
    return number - 1
