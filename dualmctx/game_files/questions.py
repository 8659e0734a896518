"""Requested positions, their lines in a file, and the fields of their results."""

import difflib
import reprlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.game_files.text_files import Line
from dualmctx.types import Environment
from games.opened_positions import MOVES_AT_ONCE

Row = dict[str, Any]
POSITION_FIELDS = ("id", "moves", "fen")
"""The fields of a requested position."""
RESULT_FIELDS = (
    *("id", "line", "error", "action", "move", "value", "network_value", "tree_values"),
    *("pv", "heads_agree", "heads_distance", "legal"),
)
"""The fields of a result, in this order."""
ECHOED_FIELDS = ("moves", "fen")
"""The fields of a position that are repeated in its result on request."""
RESERVED = frozenset(RESULT_FIELDS)
"""The names that passed fields cannot have."""
_KNOWN = frozenset(POSITION_FIELDS)
_PREFIX = "input_"
_MOVE_TYPES = frozenset((int, str))


def extra_fields(fields: Row, reserved: frozenset[str] = RESERVED) -> Row | None:
    """Returns the fields of a position that are passed through to its result; `None` for none.

    They have no meaning for a position. A reserved name gets the prefix `input_`.

    Raises:
      UserError: if two fields would have the same name.
    """
    if fields.keys() <= _KNOWN:
        return None
    extra: Row = {}
    for name, value in fields.items():
        if name in _KNOWN:
            continue
        renamed = _PREFIX + name if name in reserved else name
        if renamed in extra or (renamed != name and renamed in fields):
            raise UserError(
                f"{name} would be {renamed} in the results, as another field; rename one of them"
            )
        extra[renamed] = value
    return extra


def check_fields(fields: Iterable[str], extra: Iterable[str]) -> None:
    """Checks the names of selected fields; `extra` names those that are passed through.

    Raises:
      ValueError: if there is no such field, or a field is named twice.
    """
    fields = list(fields)
    known = list(dict.fromkeys((*RESULT_FIELDS, *ECHOED_FIELDS, *extra)))
    for name in fields:
        if name not in known:
            raise UserError(
                f"fields has {name}{perhaps(name, known)}; the fields are {', '.join(known)}"
            )
        if fields.count(name) > 1:
            raise UserError(f"fields has {name} twice; name it once")


def perhaps(name: str, known: Collection[str], cutoff: float = 0.6) -> str:
    """Returns `, perhaps you meant NAME` with the most similar known name, or an empty text.

    Capitals make no difference; `cutoff` is the smallest similarity, from 0 to 1.
    """
    found = {x.lower(): x for x in known}
    similar = difflib.get_close_matches(name.lower(), found, n=1, cutoff=cutoff)
    return f", perhaps you meant {found[similar[0]]}" if similar else ""


def select(row: Row, fields: Iterable[str]) -> Row:
    """Returns the selected fields of a row, in their order; an error is always kept."""
    selected = {name: row[name] for name in fields if name in row}
    if "error" in row and "error" not in selected:
        selected["error"] = row["error"]
    return selected


class Board(NamedTuple):
    """The board on which the game of a file is played.

    Attributes:
      game: the name of the game. The name of its environment is the same, with two exceptions: Go
        has its size there, as in `go_9x9`; for Gomoku it may also begin with `gomoku_` or
        `gomoku:`.
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
      allowed: the only actions that a search may choose in the position, at least one of them
        legal; `None` for all.
    """

    line: int
    id: int | str | None
    moves: str | list[int | str] = ""
    fen: str | None = None
    error: str | None = None
    end: int = 0
    extra: Row | None = None
    allowed: tuple[int, ...] | None = None

    def echoed(self) -> "Question":
        """Returns the question with its moves and its FEN among the fields of the results."""
        echo: Row = {} if self.error is not None else {"moves": self.moves}
        if self.fen is not None:
            echo["fen"] = self.fen
        return self._replace(extra=echo | (self.extra or {}))


def restrict(states: Any, questions: Sequence[Question]) -> Any:
    """Makes other actions than the allowed ones illegal, in the positions of the questions alone.

    Args:
      states: `[B]` states, the first of which are those of the questions. Finished games stay as
        they are.
      questions: at most B questions.

    Returns:
      The states.
    """
    if all(question.allowed is None for question in questions):
        return states
    # With NumPy, because JAX would compile a program.
    mask = np.array(states.legal_action_mask)
    for row, question in enumerate(questions):
        if question.allowed is not None:
            allowed = np.zeros(mask.shape[1], bool)
            allowed[list(question.allowed)] = True
            mask[row] &= allowed
    return states.replace(legal_action_mask=mask)


def questions_of_every_kind(env: Environment) -> list[Question]:
    """Returns positions for which all programs of `games.open_positions` are compiled.

    These are the initial position; a game with more moves than one call of the replay takes, which
    are illegal in most games; and a FEN, if the game has FENs.
    """
    long_game: list[int | str] = [0] * (MOVES_AT_ONCE + 1)
    questions = [Question(0, 0), Question(0, 0, long_game)]
    if games.has_fen(env):
        start = games.start_position(env)
        fen = games.write_fen(start) if games.is_chess(env) else games.to_fen(env, start)
        questions.append(Question(0, 0, fen=fen))
    return questions


def to_question(
    line: Line,
    read: Callable[[str], dict[str, Any]],
    reserved: frozenset[str] = RESERVED,
) -> Question:
    """Converts a line to a question; an invalid line keeps its id if that is valid.

    Args:
      line: the line.
      read: parses the text of the line to fields; raises a ValueError if it is invalid.
      reserved: the names that passed fields cannot have.
    """
    fields: Row = {"id": None}
    extra = None
    try:
        fields = read(line.decode())
        extra = extra_fields(fields, reserved)
        _check(fields)
    except UserError as error:
        kept = fields.get("id", line.number)
        kept = kept if _is_id(kept) else None
        return Question(line.number, kept, error=str(error), end=line.end, extra=extra)
    position_id, moves = fields.get("id", line.number), fields.get("moves", "")
    return Question(line.number, position_id, moves, fields.get("fen"), end=line.end, extra=extra)


def _check(fields: Row) -> None:
    """Checks the id, that there is a position, and the types of the moves and the FEN."""
    if not _is_id(fields.get("id", 0)):
        remedy = "it must be an integer or printable text"
        raise UserError(f"id is {reprlib.repr(fields['id'])}; {remedy}")
    if "moves" not in fields and "fen" not in fields:
        hints = (f"{name!r}{perhaps(name, ECHOED_FIELDS)}" for name in fields)
        hint = next((f"; there is {x}" for x in hints if "perhaps" in x), "")
        raise UserError(f"neither moves nor fen is given{hint}")
    moves, fen = fields.get("moves", ""), fields.get("fen", "")
    if not isinstance(fen, str):
        raise UserError(f"fen is {reprlib.repr(fen)}; it must be text")
    is_list = isinstance(moves, list) and _MOVE_TYPES.issuperset(map(type, moves))
    if not isinstance(moves, str) and not is_list:
        remedy = "it must be text or a list of integers and texts"
        raise UserError(f"moves is {reprlib.repr(moves)}; {remedy}")


def _is_id(value: Any) -> bool:
    """Returns whether every format of results can store an id."""
    return type(value) is int or (isinstance(value, str) and bool(value) and value.isprintable())
