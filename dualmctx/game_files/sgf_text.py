"""Splits text in the Smart Game Format (SGF) into games, and games into properties.

The library sgfmill reads the tokens of a game. Here are its encoding, which must be known before,
because a second byte of Big5 or Shift JIS may be a bracket or a backslash, and the rules for a
damaged game: its end, and the part that can be read.
"""

import codecs
import itertools
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from sgfmill import sgf_grammar

from dualmctx.errors import UserError
from dualmctx.game_files.text_files import decode

_BLOCK = 2**20
_MAX_BYTES = 2**23
# Longer than the beginning of a game that `_GAME` finds.
_TAIL = 2**10
ROOT = ("AP", "CA", "FF", "GM", "ST", "SZ")
"""Properties that only the first node of a game may have."""
_INFO = "AN|BR|BT|CP|DT|EV|GN|HA|KM|ON|OT|PB|PC|PW|RE|RO|RU|SO|TM|US|WR|WT"
_NODE = r"\([ \t\r\n]{0,99};[ \t\r\n]{0,99}"
# Text that is quoted in a value has a backslash before its brackets.
_FIRST = r"\s{0,9}\[[^\]\\]{0,99}\]"
_GAME = re.compile(rf"{_NODE}(?:{'|'.join(ROOT)}){_FIRST}".encode())
_START = re.compile(rb"\(\s*;")
_START_AFTER_ERROR = re.compile(rf"{_NODE}(?:{'|'.join(ROOT)}|{_INFO}){_FIRST}".encode())
_VALUE = re.compile(rb"\s*\[")
_DELIMITERS = re.compile(rb"[\[\]();]")
_CHARSET = re.compile(rb"(?<![A-Za-z])CA\s*\[\s*([\w.:-]{1,40})\s*\]")
_ASCII = bytes(range(32, 127))
# Encodings of which files often have more than the one that they name.
_WIDER = {"big5": "big5hkscs", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}
_WIDER |= {"euc_kr": "cp949", "ascii": "cp1252"}
# Names that Python does not know, and then Latin-1.
_ALIASES = {"windows-31j": "cp932", "gb_2312-80": "gb2312", "gb-2312": "gb2312"}
_ALIASES |= dict.fromkeys(("iso-8859-1", "iso8859-1", "latin1", "latin-1"), "cp1252")
# In Big5, GBK and Shift JIS, the backslash may be a part of the character.
_UNCLEAR = re.compile(rb"[\x80-\xff]\\")
_ESCAPE = b"\x1b"
_NOT_CLOSED = "the game is not closed"


class Property(NamedTuple):
    """A property of the main line: the number of its node, from 1, its name, and its values."""

    node: int
    name: str
    values: list[bytes]


class GameText(NamedTuple):
    """The text of a game.

    Attributes:
      tokens: the tokens of sgfmill, in UTF-8. Empty if the text belongs to no game, is too long, or
        has no known encoding.
      problem: the reason why the text does not end as a game; `None` if it does.
      end: byte offset of the end of the game in the file.
      data: the text in UTF-8, up to the next game if it does not end. The bytes of the file if it
        is too long or has no known encoding.
    """

    tokens: list[tuple[str, bytes]]
    problem: str | None
    end: int
    data: bytes = b""


def split_games(file: BinaryIO, encoding: str | None) -> Iterator[GameText]:
    """Yields the games of a collection.

    A game ends where it is closed, or before the next node with a property that only a first node
    may have. Words between games are left out; other text is a problem of the game before it.

    Args:
      file: a file opened for reading.
      encoding: the encoding of the text; by default that of the property CA of each game.
    """
    for data, end in _pieces(file):
        if len(data) > _MAX_BYTES:
            problem = f"it is longer than {_MAX_BYTES} bytes, or not closed"
            yield GameText([], problem, end, data)
            continue
        try:
            text = to_utf8(data, encoding)
        except UserError as error:
            yield GameText([], str(error), end, data)
            continue
        # The property names the encoding of the text in `GameText`, too.
        text = text if data.isascii() else _CHARSET.sub(b"CA[UTF-8]", text, count=1)
        yield from _games(text, end)


def _pieces(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Splits a file before each `_GAME`; yields pieces, and the offsets of their ends.

    A piece that is longer than a game may be is cut.
    """
    data, offset, is_cut = b"", 0, False
    while block := file.read(_BLOCK):
        data += block
        place = 0
        for found in _GAME.finditer(data, 1):
            if not is_cut:
                yield data[place : found.start()], offset + found.start()
            place, is_cut = found.start(), False
        if len(data) - place > _MAX_BYTES and not is_cut:
            yield data[place:], offset + len(data)
            is_cut = True
        place = max(place, len(data) - _TAIL) if is_cut else place
        data, offset = data[place:], offset + place
    if not is_cut:
        yield data, offset + len(data)


def to_utf8(data: bytes, encoding: str | None = None) -> bytes:
    """Converts a game to UTF-8, by default from the encoding of its property CA.

    Text that cannot be read in that encoding, or that names none, is in UTF-8 if it can be read so.
    Other text without CA is in Windows-1252.

    Raises:
      UserError: if there are other characters than ASCII, and CA is unknown; or if there is no CA,
        and the text may have been written in an encoding that makes a difference to the moves.
    """
    # The codes of ISO 2022 are ASCII, too.
    if data.isascii() and _ESCAPE not in data:
        return data
    declared = _CHARSET.search(data)
    name = encoding or (declared and declared[1].decode().lower().removeprefix("x-"))
    known = _find_encoding(name) if name else None
    wider = _WIDER.get(known, known) if known else None
    for candidate in filter(None, (known, wider, "utf-8")):
        try:
            return data.decode(candidate).encode()
        except UnicodeDecodeError:
            pass
    if wider is not None:
        return data.decode(wider, "replace").encode()
    if name:
        raise UserError(f"CA is {name!r}, an unknown encoding of text")
    if _UNCLEAR.search(data):
        raise UserError(
            "the text is not UTF-8, and nothing says whether its backslashes are parts of "
            "characters; name its encoding by CA, such as CA[Shift_JIS]"
        )
    return decode(data).encode()


def _find_encoding(name: str) -> str | None:
    """Returns Python's name of an encoding that contains ASCII; `None` if it is unknown."""
    try:
        known = codecs.lookup(_ALIASES.get(name, name)).name
        if "escape" in known or _ASCII.decode(known) != _ASCII.decode():
            return None
    except (LookupError, UnicodeError):
        return None
    return known


def _games(text: bytes, end: int) -> Iterator[GameText]:
    """Yields the games of a piece."""
    game, place, begin, start = None, 0, 0, _START.search(text)
    while True:
        rest = text[place : start.start() if start else None]
        if _DELIMITERS.search(rest) and (game is None or game.problem is None):
            problem = f"the text {_show(rest)} belongs to no game"
            game = (game or GameText([], None, end))._replace(problem=problem)
        if game is not None:
            stop = place if game.problem is None else start.start() if start else len(text)
            yield game._replace(data=text[begin:stop].rstrip())
        if start is None:
            return
        begin = start.start()
        tokens, place = sgf_grammar.tokenise(text, start.start())
        depth = sum({b"(": 1, b")": -1}.get(x, 0) for kind, x in tokens if kind == "D")
        problem = _describe(text[place : place + 99].strip()) if depth else None
        if problem == _NOT_CLOSED and (pieces := _split_unclosed(text[start.start() :])):
            for piece in pieces:
                yield from _games(piece, end)
            return
        game = GameText(tokens, problem, end)
        # No bracket closes the value, nor any other one after it.
        is_end = problem is not None and _VALUE.match(text, place)
        place = len(text) if is_end else place
        start = (_START_AFTER_ERROR if problem else _START).search(text, place)


def _split_unclosed(text: bytes) -> list[bytes]:
    """Splits the text of a game that is not closed before each game in it, if there are any."""
    starts = [found.start() for found in _START_AFTER_ERROR.finditer(text, 1)]
    bounds = itertools.pairwise((0, *starts, len(text)))
    return [text[first:last] for first, last in bounds] if starts else []


def _describe(rest: bytes) -> str:
    if not rest:
        return _NOT_CLOSED
    if rest.startswith(b"["):
        return f"{_NOT_CLOSED}: the value {_show(rest)} has no closing bracket"
    return f"the text {_show(rest)} is not SGF; write \\] for a bracket inside a value"


def _show(text: bytes) -> str:
    return repr(text.strip()[:40].decode(errors="replace"))


def properties_of(game: GameText) -> tuple[list[Property], str | None]:
    """Returns the properties of the main line, and the reason why it cannot be read further.

    The first variation is always the main one. Older, longer names are shortened.
    """
    found: list[Property] = []
    node, name, values = 0, "", list[bytes]()
    for kind, token in game.tokens:
        if kind == "V":
            values.append(token)
            if not name:
                return found, f"the value {_show(token)} has no property"
            continue
        if name and not values:
            return found, f"the property {name} has no value"
        if name:
            found.append(Property(node, name, values))
        name, values = "", []
        if kind == "I":
            name = token.decode()
            if not node or not name:
                problem = f"the property {_show(token)} has no capitals, or is not in a node"
                return found, game.problem or problem
        elif token == b";":
            node += 1
        elif token == b")":
            return found, game.problem or _find_stray(game.tokens)
    if name and values:
        found.append(Property(node, name, values))
    return found, game.problem


def _find_stray(tokens: list[tuple[str, bytes]]) -> str | None:
    """Describes damage of variations; `None` if there is none.

    Args:
      tokens: the tokens of a game whose main line has properties with values.
    """
    for (kind, token), (next_kind, following) in itertools.pairwise(tokens):
        if kind == "I" and not token:
            return "a property of a variation has no capitals in its name"
        if kind == "I" and next_kind != "V":
            return f"the property {_show(token)} of a variation has no value"
        if kind != "D":
            continue
        if next_kind == "V" or (next_kind == "I" and token != b";"):
            return f"the text {_show(following)} is in no node, or in no property"
        if token == b"(" and following != b";":
            return "a variation is empty; remove its parentheses"
        if (token, following) == (b")", b";"):
            return "a node follows a variation; write it before the first one, or in parentheses"
    return None
