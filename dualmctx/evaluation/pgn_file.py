"""Reads games of chess and Gardner's chess in Portable Game Notation (PGN).

Source: the PGN standard (1994), section 8. Comments, variations and annotation glyphs are skipped.
"""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from dualmctx.errors import UserError
from dualmctx.evaluation.game_record import GameRecord, decode
from dualmctx.evaluation.questions import Board, read_lines
from games.fen import parse_fen
from games.positions import RULES
from games.san import to_uci

# Some programs do not escape the quotes in a value.
_TAG = re.compile(r'\s*\[\s*(\w+)\s+"((?:\\.|[^"\\])*|.*?)"\s*\](?=\s*(?:\[|$))')
_TOKEN = re.compile(r"\{[^}]*\}|;[^\n]*|\$\d+|[()]|[^\s{}();$]+")
_MOVE_NUMBER = re.compile(r"\d+(\.+|$)")
_RESULTS = ("1-0", "0-1", "1/2-1/2", "1/2", "*")
_MARKS = frozenset("!?+#=")
_STANDARD_RULES = ("", "standard", "chess", "normal", "from position")
VARIANTS = {"Gardner": "gardner_chess"}
"""The games of the tag Variant, besides standard chess."""
# Fields of the results, and the tags that they show.
_SHOWN = {"white": "White", "black": "Black", "result": "Result"}


class _Chunk(NamedTuple):
    """The tags of a game, and the text of its moves; several games if only the first has tags."""

    tags: dict[str, str]
    text: str
    error: str | None
    end: int


def read_pgn(file: BinaryIO) -> Iterator[GameRecord]:
    """Reads the games of a file opened for reading, one after another in bounded memory."""
    for chunk in _chunks(file):
        about = {name: chunk.tags[tag] for name, tag in _SHOWN.items() if chunk.tags.get(tag)}
        if chunk.error is not None:
            yield GameRecord(about=about, error=chunk.error, end=chunk.end)
            continue
        try:
            games = list(_split_moves(chunk.text))
        except ValueError as error:
            yield GameRecord(about=about, error=str(error), end=chunk.end)
            continue
        tags = chunk.tags
        for moves in games:
            if moves or tags:
                yield _record(tags, moves, about, chunk.end)
            # A further game has no tags.
            tags, about = {}, {}


def _record(tags: dict[str, str], moves: list[str], about: Any, end: int) -> GameRecord:
    fen, board = tags.get("FEN"), None
    try:
        game = _game(tags.get("Variant", ""))
        board = Board(game, RULES[game].size)
        start = parse_fen(game, RULES[game].start if fen is None else fen)
        uci = to_uci(game, start, moves)
    except ValueError as error:
        return GameRecord(board=board, about=about, error=str(error), end=end)
    return GameRecord(uci, list(map(str, uci)), fen, board, about, None, end)


def _game(variant: str) -> str:
    known = dict.fromkeys(_STANDARD_RULES, "chess")
    known |= {name.lower(): game for name, game in VARIANTS.items()}
    if variant.lower() not in known:
        names = " and ".join(["standard chess", *VARIANTS])
        raise UserError(f"the variant is {variant!r}; {names} can be read")
    return known[variant.lower()]


def _chunks(file: BinaryIO) -> Iterator[_Chunk]:
    """Splits a file before each group of tags."""
    tags: dict[str, str] = {}
    lines: list[str] = []
    error, end, in_comment = None, 0, False
    for line in read_lines(file):
        text = decode(line.data)
        found = _TAG.match(text)
        # A new game starts even if a comment has not been closed.
        if found is not None and (not in_comment or found[1] == "Event"):
            found_tags = _read_tags(text)
            # A game without moves ends where a tag is repeated.
            if lines or error is not None or tags.keys() & found_tags:
                yield _Chunk(tags, "\n".join(lines), error or _unclosed(in_comment), end)
                tags, lines, error, in_comment = {}, [], None, False
            tags |= found_tags
        elif in_comment or not text.startswith("%"):
            lines.append(text)
            error = error or line.error
            in_comment = _ends_in_comment(text, in_comment)
        end = line.end
    if tags or lines or error is not None:
        yield _Chunk(tags, "\n".join(lines), error or _unclosed(in_comment), end)


def _read_tags(text: str) -> dict[str, str]:
    """Reads the tags at the beginning of a line; a search for all of them could take long."""
    tags, start = {}, 0
    while (found := _TAG.match(text, start)) is not None:
        tags[found[1]] = _unescape(found[2])
        start = found.end()
    return tags


def _unclosed(in_comment: bool) -> str | None:
    return "a comment has no closing brace" if in_comment else None


def _unescape(value: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", value)


def _ends_in_comment(text: str, in_comment: bool) -> bool:
    """Returns whether a comment in braces is open at the end of a line."""
    for mark in re.findall("[{};]", text):
        if mark == ";" and not in_comment:
            return False
        in_comment = mark == "{" or (mark == ";" and in_comment)
    return in_comment


def _split_moves(text: str) -> Iterator[list[str]]:
    """Yields the moves of each game; a result ends a game.

    Raises:
      ValueError: if the parentheses of a variation do not match.
    """
    moves: list[str] = []
    depth, is_new = 0, True
    for token in _TOKEN.findall(text):
        if token in "()":
            depth += 1 if token == "(" else -1
            if depth < 0:
                raise UserError("a closing parenthesis has no opening one")
        elif depth or token[0] in "{;$" or _MARKS.issuperset(token) or token == "e.p.":
            continue
        elif token in _RESULTS:
            yield moves
            moves, is_new = [], False
        else:
            move = token[number.end() :] if (number := _MOVE_NUMBER.match(token)) else token
            moves += [move] if move else []
    if depth:
        raise UserError("a variation has no closing parenthesis")
    # A game may lack its result.
    if moves or is_new:
        yield moves
