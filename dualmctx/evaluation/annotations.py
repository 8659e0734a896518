"""Games of a file with the results of their evaluation, for the viewers that people use.

The tags, comments and variations of the file stay. Each move gets the value after it. A
move that loses much gets a mark, and the line that the search prefers as a variation.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeVar

from sgfmill import sgf_grammar

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluations import centipawns, mark
from dualmctx.game_files.game_record import GameRecord
from dualmctx.game_files.pgn_file import read_pgn
from dualmctx.game_files.questions import Row
from dualmctx.game_files.records import sgf_moves
from dualmctx.game_files.sgf_file import read_game
from dualmctx.game_files.sgf_text import GameText, properties_of, split_games
from dualmctx.game_files.text_files import decode, read_lines
from dualmctx.runs.journal import parse_line
from dualmctx.types import Environment
from games.positions import RULES, Position
from games.san import play, to_san

# The glyphs of PGN, and the properties of SGF.
_GLYPHS = {"blunder": "$4", "mistake": "$2", "inaccuracy": "$6"}
_PROPERTIES = {"blunder": ("BM", b"2"), "mistake": ("BM", b"1"), "inaccuracy": ("DO", b"")}
_COLORS = ("White", "Black")
_GLYPHS_AFTER = re.compile(r"(?:\s*\$[0-9]+)*")
_COMMENTS_AFTER = re.compile(r"(?:\s*\{[^}]*\})*")
Open = Callable[[], contextlib.AbstractContextManager[BinaryIO]]
X = TypeVar("X")


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
        """Returns the comment, such as "White +0.05; mistake: Nf3 has +0.31"."""
        shown = f"{player} {self.value:+.2f}"
        lost = f"; {self.mark}: {best} has {self.best_value:+.2f}" if self.mark else ""
        return shown + lost


def notes_of(rows: Sequence[Row]) -> dict[int, Note]:
    """Returns the notes of the moves of a game, by the number of moves before each.

    A move has a note if the positions before and after it were evaluated without an error. The
    players take turns in all games that files hold, with passes as moves.
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
        line = row["pv"] if row["pv"][:1] == [row["move"]] else [row["move"]]
        found[ply] = Note(value, best, mark(best - value), list(line))
    return found


def _with_notes(found: Iterable[X], lines: Iterable[bytes]) -> Iterator[tuple[X, dict[int, Note]]]:
    """Yields each game of a file with the notes of its moves."""
    by_game = itertools.groupby(map(parse_line, lines), key=lambda row: row["game"])
    number, rows = next(by_game, (0, iter(())))
    for index, game in enumerate(found, start=1):
        if number == index:
            yield game, notes_of(list(rows))
            number, rows = next(by_game, (0, iter(())))
        else:
            yield game, {}


def annotate_pgn(env: Environment, opened: Open, lines: Iterable[bytes], file: BinaryIO) -> None:
    """Writes games of chess with glyphs, comments and variations.

    A comment begins with `[%eval ...]`, from which viewers draw a curve: pawns, in the view of
    White, see `centipawns`. A line of the file that already has such a value gets no new one.
    Several blank lines become one.

    Args:
      env: the game.
      opened: opens the file of games.
      lines: the rows of all positions of the file, as lines of JSON.
      file: the output, in UTF-8.

    Raises:
      UserError: if a line is too long to be read.
    """
    with opened() as records, opened() as texts:
        insertions = _insertions(env, _with_notes(read_pgn(records), lines))
        pending, last = next(insertions, None), 0
        for line in read_lines(texts):
            if line.error is not None:
                raise UserError(f"line {line.number}: {line.error}; split it")
            text, start, parts = decode(line.data), 0, ["\n" * (line.number > last + 1 > 1)]
            while pending is not None and pending.line == line.number:
                # The comment follows those of the file, and the glyph those after the move.
                middle = _GLYPHS_AFTER.match(text, pending.column).end()  # pyright: ignore
                end = _COMMENTS_AFTER.match(text, middle).end()  # pyright: ignore
                comment = "" if "[%eval" in text else pending.evaluation
                comment = f" {{{comment}{pending.comment}}}{pending.variation}"
                parts += [text[start:middle], pending.glyph, text[middle:end], comment]
                start, pending = end, next(insertions, None)
            file.write(f"{''.join(parts)}{text[start:]}\n".encode())
            last = line.number


class _Insertion(NamedTuple):
    """The texts of a move, with the line and the column after it."""

    line: int
    column: int
    glyph: str
    evaluation: str
    comment: str
    variation: str = ""


def _insertions(
    env: Environment, noted: Iterable[tuple[GameRecord, dict[int, Note]]]
) -> Iterator[_Insertion]:
    """Yields texts in the order of their places."""
    for record, notes in noted:
        if not notes:
            continue
        fen = RULES[env.id].start if record.fen is None else record.fen
        position = games.read_fen(env, fen)
        for ply, (move, place) in enumerate(zip(record.texts, record.places, strict=True)):
            if ply in notes:
                yield _insertion(place, position, notes[ply])
            position = play(position, move)


def _insertion(place: tuple[int, int], position: Position, note: Note) -> _Insertion:
    names, is_white = to_san(position, note.line), position.color == 0
    score = centipawns(note.value if is_white else -note.value) / 100
    comment = note.text(_COLORS[position.color], names[0])
    found = _Insertion(*place, "", f"[%eval {score:.2f}] ", comment)
    if note.mark is None:
        return found
    number = f"{position.fullmoves}{'.' if is_white else '...'}"
    variation = f" ({number} {' '.join(names)})"
    return found._replace(glyph=f" {_GLYPHS[note.mark]}", variation=variation)


def annotate_sgf(env: Environment, opened: Open, lines: Iterable[bytes], file: BinaryIO) -> None:
    """Writes games in SGF with comments, marks of bad and doubtful moves, and variations.

    A comment is added to that of the file. A game whose text is damaged, also in a variation, stays
    as it is. Text between games is left out.

    Args:
      env: the game.
      opened: opens the file of games.
      lines: the rows of all positions of the file, as lines of JSON.
      file: the output, in UTF-8; text that cannot be read stays as it is.
    """
    with opened() as texts:
        for text, notes in _with_notes(split_games(texts, None), lines):
            file.write(_annotate_game(env, text, notes) if notes else text.data)
            file.write(b"\n")


def _annotate_game(env: Environment, text: GameText, notes: dict[int, Note]) -> bytes:
    record, tree = read_game(text), _parse(text)
    if not record.places or tree is None:
        return text.data
    # From the last one, because a variation divides the nodes after it from those before.
    for ply in sorted(notes, reverse=True):
        index = record.setup + ply
        node = record.places[index][0] if index < len(record.places) else 0
        if node:
            _add(env, tree, node, notes[ply])
    return sgf_grammar.serialise_game_tree(tree, wrap=None)


def _parse(text: GameText) -> Any:
    """Returns the tree of a game; `None` if its text is damaged."""
    is_damaged = properties_of(text)[1] is not None
    return None if is_damaged else sgf_grammar.parse_sgf_game(text.data)


def _add(env: Environment, tree: Any, number: int, note: Note) -> None:
    """Adds a note to a node of the main line, by its number from 1, and the better line."""
    above, index = None, number - 1
    while index >= len(tree.sequence):
        index -= len(tree.sequence)
        above, tree = tree, tree.children[0]
    node = tree.sequence[index]
    color = "B" if "B" in node else "W"
    comment = note.text(_COLORS[color == "B"], note.line[0]).encode()
    node["C"] = [b"\n".join([*node.get("C", []), comment])]
    if note.mark is None:
        return
    name, value = _PROPERTIES[note.mark]
    node[name] = [value]
    colors = itertools.cycle((color, "W" if color == "B" else "B"))
    moves = sgf_moves(env, games.parse_moves(env, note.line))
    branch = sgf_grammar.Coarse_game_tree()
    branch.sequence = [{x: [y.encode()]} for x, y in zip(colors, moves, strict=False)]
    if index:
        rest = sgf_grammar.Coarse_game_tree()
        rest.sequence, rest.children = tree.sequence[index:], tree.children
        tree.sequence, tree.children = tree.sequence[:index], [rest, branch]
    elif above is not None:
        # The first node of a game has no place for another move.
        above.children.append(branch)


ANNOTATORS = {".pgn": annotate_pgn, ".sgf": annotate_sgf}
"""The writer of annotated games, by the suffix of the file of games and of the output."""
