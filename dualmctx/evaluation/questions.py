"""Requested positions, and their lines in a file."""

import reprlib
from collections.abc import Callable
from typing import Any, NamedTuple

from dualmctx.errors import UserError
from dualmctx.evaluation.fields import ECHOED_FIELDS, Row, extra_fields, perhaps
from dualmctx.evaluation.text_files import Line

_MOVE_TYPES = frozenset((int, str))


class Board(NamedTuple):
    """The board on which the game of a file is played.

    Attributes:
      game: the name of the game; that of its environment may continue with an underscore.
      size: the number of its rows and columns.
    """

    game: str
    size: int


class Question(NamedTuple):
    """A requested position; its moves and its FEN have not been parsed yet.

    Attributes:
      line: number of the line, from 1.
      id: id of the position: by default the number of the line; `None` if it cannot be read.
      moves: text or a list, as for `games.parse_moves`.
      fen: FEN of the position in which the moves begin; `None` for the initial position.
      error: reason why the line is invalid; `None` if it is valid.
      end: byte offset of the end of the line in the file.
      extra: further fields of the row of results, by name; `None` if there are none.
    """

    line: int
    id: int | str | None
    moves: str | list[int | str] = ""
    fen: str | None = None
    error: str | None = None
    end: int = 0
    extra: Row | None = None

    def echoed(self) -> "Question":
        """Returns the question with its moves and its FEN among the fields of the results."""
        echo: Row = {} if self.error is not None else {"moves": self.moves}
        if self.fen is not None:
            echo["fen"] = self.fen
        return self._replace(extra=echo | (self.extra or {}))


def to_question(line: Line, read: Callable[[str], dict[str, Any]]) -> Question:
    """Converts a line to a question; an invalid line keeps its id if that is valid.

    Args:
      line: the line.
      read: parses the text of the line to fields; raises a ValueError if it is invalid.
    """
    fields: Row = {"id": None}
    extra = None
    try:
        fields = read(line.decode())
        extra = extra_fields(fields)
        position_id = _check_id(fields.get("id", line.number))
        _check(fields)
    except UserError as error:
        kept = _valid_id(fields.get("id", line.number))
        return Question(line.number, kept, error=str(error), end=line.end, extra=extra)
    moves = fields.get("moves", "")
    return Question(line.number, position_id, moves, fields.get("fen"), end=line.end, extra=extra)


def _check(fields: Row) -> None:
    """Checks that there is a position, and the types of the moves and the FEN."""
    if "moves" not in fields and "fen" not in fields:
        hints = (f"{name!r}{perhaps(name, ECHOED_FIELDS)}" for name in fields)
        hint = next((f"; there is {x}" for x in hints if "perhaps" in x), "")
        raise UserError(f"neither moves nor fen is given{hint}")
    moves, fen = fields.get("moves", ""), fields.get("fen", "")
    if not isinstance(fen, str):
        raise UserError(f"fen is {reprlib.repr(fen)}; it must be text")
    if not isinstance(moves, str) and not _is_list_of_moves(moves):
        remedy = "it must be text or a list of integers and texts"
        raise UserError(f"moves is {reprlib.repr(moves)}; {remedy}")
    for name, texts in (("moves", [moves] if isinstance(moves, str) else moves), ("fen", [fen])):
        if not all(map(_is_unicode, texts)):
            problem = f"{name} is {reprlib.repr(fields[name])}"
            raise UserError(f"{problem}; it must have no unpaired surrogates")


def _is_unicode(value: Any) -> bool:
    """Returns whether a value can be repeated in the results, as text in UTF-8."""
    if not isinstance(value, str) or value.isascii():
        return True
    return not any("\ud800" <= x <= "\udfff" for x in value)


def _is_list_of_moves(moves: Any) -> bool:
    return isinstance(moves, list) and _MOVE_TYPES.issuperset(map(type, moves))


def _check_id(value: Any) -> int | str:
    found = _valid_id(value)
    if found is None:
        remedy = "it must be an integer or printable text"
        raise UserError(f"id is {reprlib.repr(value)}; {remedy}")
    return found


def _valid_id(value: Any) -> int | str | None:
    """Returns an id that every format of results can store, else `None`."""
    if type(value) is int or (isinstance(value, str) and value and value.isprintable()):
        return value
    return None
