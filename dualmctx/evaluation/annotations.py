"""Games of a file with the results of their evaluation, for the viewers that people use.

The text of the file stays: its tags, comments and variations. Each move gets the value after it. A
move that loses much gets a mark, and the line that the search prefers as a variation.
"""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple, TypeVar

from sgfmill import sgf, sgf_grammar

import games
from dualmctx.evaluation.game_record import GameRecord
from dualmctx.evaluation.pgn_file import read_pgn
from dualmctx.evaluation.questions import Row
from dualmctx.evaluation.records import sgf_moves
from dualmctx.evaluation.sgf_file import read_game
from dualmctx.evaluation.sgf_text import split_games
from dualmctx.evaluation.text_files import decode, read_lines
from dualmctx.runs.journal import parse_line
from dualmctx.types import Environment
from games.positions import RULES, Position
from games.san import play, to_san

MARKS = (("blunder", 0.4), ("mistake", 0.2), ("inaccuracy", 0.1))
"""Marks and the least loss of value that earns each, from the largest loss down.

Values are expected results in [-1, 1], so a loss of 1 turns a win into a draw, and a loss of 0.4 is
a fifth of the way from a certain win to a certain loss. These are the limits of chess.com's
classification of moves: 0.2, 0.1 and 0.05 of an expected score in [0, 1]. The page of `dualmctx
play` shows the marks as ??, ? and ?!.
"""
# The glyphs of PGN, and the properties of SGF.
_GLYPHS = {"blunder": "$4", "mistake": "$2", "inaccuracy": "$6"}
_PROPERTIES = {"blunder": ("BM", b"2"), "mistake": ("BM", b"1"), "inaccuracy": ("DO", b"")}
_LARGEST_SCORE = 12_800
_SCALE, _STEEPNESS = 90.0, 1.5637541897
_COLORS = ("White", "Black")
Open = Callable[[], contextlib.AbstractContextManager[BinaryIO]]
X = TypeVar("X")


def mark(loss: float | None) -> str | None:
    """Returns the mark of a move that loses `loss` of its value; `None` below all thresholds."""
    if loss is None:
        return None
    return next((text for text, least in MARKS if loss >= least), None)


def centipawns(value: float) -> int:
    """Returns a score in hundredths of a pawn for a value from -1 to 1.

    It is 90 tan(1.5637541897 value), as in Leela Chess Zero, and at most 12,800.
    """
    bounded = min(1.0, max(-1.0, value))
    score = round(_SCALE * math.tan(_STEEPNESS * bounded))
    return max(-_LARGEST_SCORE, min(_LARGEST_SCORE, score))


class Note(NamedTuple):
    """A move of a game in the view of the player who made it.

    Attributes:
      value: the value of the position after it.
      best_value: the value of the best move; `value` if that was played.
      mark: a mark of `MARKS`, or `None`.
      line: the moves that the search expects from the position before it, in the notation of the
        game.
    """

    value: float
    best_value: float
    mark: str | None
    line: list[str]

    def text(self, player: str, best: str) -> str:
        """Returns the comment, such as "mistake: Nf3 keeps +0.31 for White; +0.05".

        Args:
          player: the player who made the move.
          best: the best move.
        """
        shown = f"{player} {self.value:+.2f}"
        lost = f"; {self.mark}: {best} has {self.best_value:+.2f}" if self.mark else ""
        return shown + lost


def notes_of(rows: Sequence[Row]) -> dict[int, Note]:
    """Returns the notes of the moves of a game, by the number of moves before each.

    Moves before and after which the file and the evaluation have no error have a note. The players
    take turns in all games that files hold, with passes as moves.

    Args:
      rows: the rows of the positions of the game, in order.
    """
    known = {row["ply"]: row for row in rows if "error" not in row}
    found = dict[int, Note]()
    for ply, row in known.items():
        after = known.get(ply + 1)
        if after is None or row["played"] is None:
            continue
        value = -after["value"] + 0.0
        best = next((x["q"] for x in row["legal"] if x["move"] == row["move"]), None)
        best = row["value"] if best is None else best
        is_best = row["played"] == row["move"]
        best = value if is_best else best
        found[ply] = Note(value, best, mark(best - value), list(row["pv"]))
    return found


def _with_notes(found: Iterable[X], lines: Iterable[bytes]) -> Iterator[tuple[X, dict[int, Note]]]:
    """Yields each game of a file with the notes of its moves."""
    grouped = itertools.groupby(map(parse_line, lines), key=lambda row: row["game"])
    by_game = ((number, list(rows)) for number, rows in grouped)
    number, rows = next(by_game, (0, []))
    for index, game in enumerate(found, start=1):
        is_evaluated = number == index
        yield game, notes_of(rows) if is_evaluated else {}
        if is_evaluated:
            number, rows = next(by_game, (0, []))


def annotate_pgn(env: Environment, opened: Open, lines: Iterable[bytes], file: BinaryIO) -> None:
    """Writes games of chess with numbers, comments, glyphs and variations.

    The comment begins with `[%eval ...]`, from which viewers draw a curve: pawns, in the view of
    White, see `centipawns`. Blank lines are only kept between tags and moves.

    Args:
      env: the game.
      opened: opens the file of games.
      lines: the rows of all positions of the file, as lines of JSON.
      file: the output, in UTF-8.
    """
    with opened() as records, opened() as texts:
        insertions = _insertions(env, _with_notes(read_pgn(records), lines))
        pending = next(insertions, None)
        was_tag = True
        for line in read_lines(texts):
            text, start, parts = decode(line.data), 0, list[str]()
            while pending is not None and pending[0] == line.number:
                _, column, added = pending
                parts += [text[start:column], added]
                start, pending = column, next(insertions, None)
            is_tag = text.startswith("[")
            blank = "" if is_tag == was_tag else "\n"
            file.write(f"{blank}{''.join(parts)}{text[start:]}\n".encode())
            was_tag = is_tag


def _insertions(
    env: Environment, noted: Iterable[tuple[GameRecord, dict[int, Note]]]
) -> Iterator[tuple[int, int, str]]:
    """Yields texts with the line and the column where they belong, in order."""
    for record, notes in noted:
        if not notes:
            continue
        fen = RULES[env.id].start if record.fen is None else record.fen
        position = games.read_fen(env, fen)
        for ply, (move, place) in enumerate(zip(record.texts, record.places, strict=True)):
            if ply in notes:
                yield *place, _pgn_text(position, notes[ply])
            position = play(position, move)


def _pgn_text(position: Position, note: Note) -> str:
    """Returns the glyph, the comment and the variation of a move from a position."""
    names, is_white = to_san(position, note.line), position.color == 0
    score = centipawns(note.value if is_white else -note.value) / 100
    comment = note.text(_COLORS[position.color], names[0] if names else "")
    text = f" {{[%eval {score:.2f}] {comment}}}"
    if note.mark is None:
        return text
    number = f"{position.fullmoves}{'.' if is_white else '...'}"
    return f" {_GLYPHS[note.mark]}{text} ({number} {' '.join(names)})"


def annotate_sgf(env: Environment, opened: Open, lines: Iterable[bytes], file: BinaryIO) -> None:
    """Writes games in SGF with comments, marks of bad and doubtful moves, and variations.

    A comment is added to that of the file. A game that is damaged stays as it is.

    Args:
      env: the game.
      opened: opens the file of games.
      lines: the rows of all positions of the file, as lines of JSON.
      file: the output, in UTF-8.
    """
    with opened() as texts:
        for text, notes in _with_notes(split_games(texts, None), lines):
            data = b"".join(b"[%s]" % x if kind == "V" else x for kind, x in text.tokens)
            file.write(_annotate_game(env, data, read_game(text), notes) if notes else data)
            file.write(b"\n")


def _annotate_game(
    env: Environment, data: bytes, record: GameRecord, notes: dict[int, Note]
) -> bytes:
    depth = sum({b"(": 1, b")": -1}.get(x, 0) for _, x in sgf_grammar.tokenise(data)[0])
    try:
        tree = sgf.Sgf_game.from_bytes(data + b")" * depth, override_encoding="UTF-8")
    except ValueError:
        return data
    nodes = tree.get_main_sequence()
    for ply, note in notes.items():
        index = record.setup + ply
        node = record.places[index][0] if index < len(record.places) else 0
        if node == 0:
            continue
        _add(env, nodes[node - 1], note)
    return tree.serialise(wrap=None)


def _add(env: Environment, node: sgf.Tree_node, note: Note) -> None:
    """Adds a note to the node of its move, and the better line beside it."""
    color = "B" if node.has_property("B") else "W"
    comment = note.text(_COLORS[color == "B"], note.line[0] if note.line else "")
    old = f"{node.get('C')}\n" if node.has_property("C") else ""
    node.set("C", old + comment)
    if note.mark is None:
        return
    name, value = _PROPERTIES[note.mark]
    node.set_raw(name, value)
    colors = itertools.cycle((color, "W" if color == "B" else "B"))
    branch = node.parent
    for move, mover in zip(sgf_moves(env, games.parse_moves(env, note.line)), colors, strict=False):
        branch = branch.new_child()
        branch.set_raw(mover, move.encode())


ANNOTATORS = {".pgn": annotate_pgn, ".sgf": annotate_sgf}
"""The writer of annotated games, by the suffix of the file of games and of the output."""
