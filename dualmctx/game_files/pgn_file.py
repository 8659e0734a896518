"""Reads games of chess and Gardner's chess in Portable Game Notation (PGN).

Source: the PGN standard (1994), sections 3 to 8, whose import format is lenient. Comments,
variations and annotation glyphs are skipped. A game ends with an error where its text is not
understood.
"""

import dataclasses
import operator
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from dualmctx.errors import UserError
from dualmctx.game_files.game_record import GameRecord
from dualmctx.game_files.questions import Board
from dualmctx.game_files.text_files import decode, read_lines
from games.fen import parse_fen
from games.positions import RULES
from games.san import plain, to_uci

_TAG = r'\[\s*([\w+#=:-]+)\s*"{}"\s*\]'
_STRICT_TAG = re.compile(_TAG.replace("{}", r'((?:\\.|[^"\\])*)'))
# Some programs do not escape the quotes in a value.
_LAX_TAG = re.compile(_TAG.replace("{}", "(.*?)") + r"(?=\s*(?:\[|$))")
_EVENT = re.compile(r'\[\s*Event\s*"')
_TOKEN = re.compile(r"[\s,]*(\$[0-9]+|[=/]?\([QRBNqrbn]\)|[^\s,{}();$\[\]*]+|[^\s,])")
# A promotion that stands apart from its move, and the moves before it.
_PROMOTION = re.compile(r"[=/]?\([QRBNqrbn]\)|[=/][QRBNqrbn]")
_PROMOTED = re.compile(r"(?:[0-9]+\.+)?P?(?:[a-h][1-8]?[x:-]?)?[a-h][18][=/]?")
_RESULTS = {"1-0": "1-0", "0-1": "0-1", "1/2-1/2": "1/2-1/2", "*": "*", "1:0": "1-0"}
_RESULTS |= {"0:1": "0-1"} | dict.fromkeys(("1/2", "1/2:1/2", "0.5-0.5"), "1/2-1/2")
_STANDARD_RULES = ("", "standard", "chess", "classical", "normal", "from position")
VARIANTS = {"Gardner": "gardner_chess"}
"""The games of the tag Variant, besides standard chess."""
# The tags that determine the first position.
_START_TAGS = ("fen", "variant")


def read_pgn(file: BinaryIO) -> Iterator[GameRecord]:
    """Reads the games of a file opened for reading, one after another in bounded memory.

    A game ends with its result, or before the tags of the next one. It may lack tags and result. If
    it has tags alone, it ends before its first tag comes again, or another one after a blank line.
    """
    game = _Game()
    for token in _tokens(file):
        if token.kind == "tag" and (game.has_moves or game.ends_before(token)):
            yield game.record()
            game = _Game()
        game.add(token)
        if game.result:
            if not game.is_empty:
                yield game.record()
            game = _Game()
    if not game.is_empty:
        yield game.record()


class _Token(NamedTuple):
    """A part of a file.

    Attributes:
      kind: "tag", "bad tag", "word", "(", ")" or "error".
      text: the name of a tag, a word between moves, or the description of an error.
      line: number of its line.
      end: byte offset of the end of the line.
      value: the value of a tag.
      column: the column after a word.
    """

    kind: str
    text: str
    line: int
    end: int
    value: str = ""
    column: int = 0


def _tokens(file: BinaryIO) -> Iterator[_Token]:
    """Yields the parts of a file without comments and glyphs with numbers."""
    comment = end = 0  # the line in which the open comment begins
    for line in read_lines(file):
        text, place, end = decode(line.data), 0, line.end
        if line.error is not None:
            yield _Token("error", f"line {line.number}: {line.error}", line.number, end)
        # A new game starts even if a comment has not been closed.
        if comment and _EVENT.match(text):
            yield _unclosed(comment, end)
            comment = 0
        if text.startswith("%") and not comment:
            continue
        while place < len(text):
            if comment:
                close = text.find("}", place)
                place, comment = (close + 1, 0) if close >= 0 else (len(text), comment)
                continue
            token = _TOKEN.match(text, place)
            if token is None or token[1] == ";":
                break
            place, found = token.end(), token[1]
            if found == "{":
                comment = line.number
            elif found == "[":
                place = token.start(1)
                tag = _STRICT_TAG.match(text, place) or _LAX_TAG.match(text, place)
                if tag is None:
                    problem = f"line {line.number}: {text[place:][:60]!r} is not a tag"
                    yield _Token("bad tag", problem, line.number, end)
                    break
                value = re.sub(r'\\(["\\])', r"\1", tag[2])
                yield _Token("tag", tag[1], line.number, end, value)
                place = tag.end()
            elif found in "}]$":
                problem = f"line {line.number}: {found!r} has no beginning or no number"
                yield _Token("error", problem, line.number, end)
            elif found[0] != "$":
                kind = found if found in "()" else "word"
                yield _Token(kind, found, line.number, end, column=place)
    if comment:
        yield _unclosed(comment, end)


def _unclosed(line: int, end: int) -> _Token:
    return _Token("error", f"line {line}: a comment has no closing brace", line, end)


@dataclasses.dataclass
class _Game:
    """The parts of a game that have been read; text after an error is left out."""

    tags: dict[str, str] = dataclasses.field(default_factory=dict)
    words: list[str] = dataclasses.field(default_factory=list)
    places: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    variations: list[int] = dataclasses.field(default_factory=list)
    has_moves: bool = False
    bad_tag: str | None = None
    error: str | None = None
    result: str = ""
    line: int = 0
    end: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but a result."""
        return not (self.tags or self.words or self.variations or self.error or self.bad_tag)

    def ends_before(self, tag: _Token) -> bool:
        """Returns whether the tag is the first one of another game, if this one has no moves."""
        name = tag.text.lower()
        return name in self.tags and (name == next(iter(self.tags)) or tag.line > self.line + 1)

    def add(self, token: _Token) -> None:
        """Adds a token."""
        kind, self.line, self.end = token.kind, token.line, token.end
        if kind == "tag":
            name = token.text.lower()
            if self.tags.get(name, token.value) != token.value and name in _START_TAGS:
                problem = f"line {token.line}: the tag {token.text} is there twice"
                self.bad_tag = self.bad_tag or problem
            self.tags[name] = token.value
            return
        if kind == "bad tag" and not self.has_moves:
            self.bad_tag = self.bad_tag or token.text
            return
        self.has_moves = True
        if kind in ("error", "bad tag"):
            self.error = self.error or token.text
        elif kind == "(":
            self.variations.append(token.line)
        elif kind == ")" and self.variations:
            self.variations.pop()
        elif kind == ")":
            problem = f"line {token.line}: a closing parenthesis has no opening one"
            self.error = self.error or problem
        elif not self.variations:
            self.result = _RESULTS.get(plain(token.text), "")
            if not self.result and self.error is None:
                self._add_word(token.text, (token.line, token.column))

    def _add_word(self, word: str, place: tuple[int, int]) -> None:
        is_promotion = _PROMOTION.fullmatch(word) is not None
        if is_promotion and self.words and _PROMOTED.fullmatch(self.words[-1]):
            self.words[-1] += word
            self.places[-1] = place
        # A single letter in parentheses is otherwise a variation.
        elif not (is_promotion and word[0] == "("):
            self.words.append(word)
            self.places.append(place)

    def record(self) -> GameRecord:
        """Returns the game."""
        tags, fen, board = self.tags, self.tags.get("fen") or None, None
        result = _RESULTS.get(plain(tags.get("result", "*")), tags.get("result"))
        result = self.result if result == "*" and self.result else result
        about = {"white": tags.get("white"), "black": tags.get("black"), "result": result}
        about = {name: value for name, value in about.items() if value}
        if "result" not in tags and result == "*":
            about.pop("result")
        moves, places = list[str](), list[tuple[int, int]]()
        try:
            game = _game(tags.get("variant", ""))
            board = Board(game, RULES[game].size)
            if self.bad_tag is not None:
                raise UserError(self.bad_tag)
            start = parse_fen(game, RULES[game].start if fen is None else fen)
        except UserError as error:
            return GameRecord((), (), fen, board, about, str(error), self.end, has_start=False)
        error = self.error
        try:
            words = iter(self.words)
            for move in to_uci(game, start, words):
                moves.append(move)
                # The move is that of the last word which has been read.
                places.append(self.places[-1 - operator.length_hint(words)])
        except UserError as problem:
            error = str(problem)
        if error is None and self.variations:
            error = f"line {self.variations[-1]}: a variation has no closing parenthesis"
        has_start = bool(tags or moves or error is None)
        found = GameRecord(moves, moves, fen, board, about, error, self.end, has_start=has_start)
        return found._replace(places=places)


def _game(variant: str) -> str:
    known = dict.fromkeys(_STANDARD_RULES, "chess")
    known |= {name.lower(): game for name, game in VARIANTS.items()}
    if variant.lower() not in known:
        names = " and ".join(["standard chess", *VARIANTS])
        raise UserError(f"the variant is {variant!r}; {names} can be read")
    return known[variant.lower()]
