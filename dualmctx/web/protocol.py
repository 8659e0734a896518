"""The messages that a page sends, and their validation; docs/play-protocol.md has them all.

Everything here is pure: text becomes a `Message`, or a ValueError with the value and the remedy.
"""

import dataclasses
import reprlib
from typing import Annotated, Any, NamedTuple

import orjson
from msgspec import Meta

from dualmctx.errors import UserError
from dualmctx.game_files.questions import Question, perhaps
from dualmctx.serving.requests import Simulations, Text, decode_setting
from dualmctx.typed_values import decode

Id = int | str | None
"""The id of a message, which its answers repeat."""
Row = dict[str, Any]
"""A message to the page, as JSON values."""
MAX_MESSAGE_BYTES = 2**18
"""The largest message that is read; a longer one is answered with an error."""
MAX_MOVES = 1000
"""The largest number of moves of a position."""
MAX_RECORDED = 500
"""The largest number of simulations of a recorded search, whose recording has a few MB."""
_MAX_ID = 100


@dataclasses.dataclass(frozen=True)
class Message:
    """A valid message of a page. Fields that its type does not use have their defaults.

    Attributes:
      type: one of `TYPES`.
      id: the id of the message; `None` if it has none.
      checkpoint: the name of a network that `welcome` lists.
      moves: the moves of the position, by name or by the number of the action.
      fen: the FEN in which the moves begin; `None` for the initial position.
      variant: a search in the grammar of `--variant`; `None` for the default search.
      simulations: one number for all trees together or a number for each tree; `None` for the
        number of the search.
      temperature: exponent of the sampled move; 0 for the best move.
      compare: whether a recording has a comparison.
      text: a record of a game.
      format: the format of a record to write.
      headers: headers of a record to write.
      target: the id of the message to stop.
    """

    type: str
    id: Id = None
    checkpoint: str = ""
    moves: tuple[int | str, ...] = ()
    fen: str | None = None
    variant: str | None = None
    simulations: tuple[int, ...] | None = None
    temperature: float = 0.0
    compare: bool = False
    text: str = ""
    format: str = ""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    target: Id = None

    def question(self, identity: str | int = 0) -> Question:
        """Returns the position as a question for the engine, which is asked under an id."""
        return Question(0, identity, list(self.moves), self.fen)


class Refusal(NamedTuple):
    """A message that cannot be read.

    Attributes:
      id: its id, if that can be read.
      reason: the value and the remedy.
    """

    id: Id
    reason: str


TYPES: dict[str, tuple[str, ...]] = {
    "hello": (),
    "open": ("checkpoint",),
    "position": ("checkpoint",),
    "search": ("checkpoint",),
    "analyse": ("checkpoint",),
    "exact": ("checkpoint",),
    "review": ("checkpoint",),
    "read": ("text",),
    "write": ("checkpoint", "format"),
    "record_search": ("checkpoint",),
    "stop": ("target",),
}
"""The types of messages, each with the fields that it must have."""


def read_message(data: str | bytes) -> Message | Refusal:
    """Reads a message; bytes stand for a binary message, which is refused."""
    identity: Id = None
    try:
        fields = _read_json(data)
        identity = _valid_id(fields.get("id"))
        return _to_message(fields)
    except UserError as error:
        return Refusal(identity, str(error))


def error(identity: Id, reason: str) -> Row:
    """Returns the answer to a message that failed."""
    return {"type": "error", "id": identity, "message": reason}


def to_json(row: Row) -> str:
    """Returns the text of an answer; NaN and infinity become null."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(row, option=options).decode()


def _read_json(data: str | bytes) -> Row:
    if isinstance(data, bytes):
        raise UserError("the message is binary; send text with a JSON object")
    # Each character has at most 4 bytes, so that most messages need not be encoded.
    size = len(data) if 4 * len(data) <= MAX_MESSAGE_BYTES else len(data.encode())
    if size > MAX_MESSAGE_BYTES:
        raise UserError(
            f"the message has {size:,} bytes; it may have at most {MAX_MESSAGE_BYTES:,}"
        )
    try:
        fields = orjson.loads(data)
    except orjson.JSONDecodeError as failure:
        raise UserError(f"the message is not valid JSON: {failure}; send a JSON object") from None
    if not isinstance(fields, dict):
        raise UserError(f"the message is {reprlib.repr(fields)}; send a JSON object")
    return fields


def _to_message(fields: Row) -> Message:
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        hint = perhaps(kind, TYPES) if isinstance(kind, str) else ""
        known = ", ".join(TYPES)
        raise UserError(f"type is {reprlib.repr(kind)}{hint}; it must be one of {known}")
    checked: Row = {"type": kind}
    for name, value in fields.items():
        if name == "type":
            continue
        if name not in _HINTS:
            known = ", ".join(_HINTS)
            shown = reprlib.repr(name)
            raise UserError(f"there is no field {shown}{perhaps(name, _HINTS)}; use {known}")
        if value is not None:
            checked[name] = decode_setting(name, value, _HINTS[name])
    for name in TYPES[kind]:
        if name not in checked:
            raise UserError(f"{name} is missing; a message of type {kind} needs it")
    return Message(**checked)


def _valid_id(value: Any) -> Id:
    """Returns an id that can be repeated, else `None`."""
    try:
        return None if value is None else decode("id", value, _Id)
    except UserError:
        return None


_Id = Annotated[
    Annotated[int, Meta(ge=-(2**53), le=2**53)] | Annotated[str, Meta(max_length=_MAX_ID)],
    Meta(description=f"a whole number, or text of at most {_MAX_ID} characters"),
]
_Move = Annotated[int, Meta(ge=0, lt=2**31)] | Annotated[str, Meta(min_length=1, max_length=300)]
_MOVES = f"a list of at most {MAX_MOVES:,} names and numbers of moves"
_Header = Annotated[str, Meta(max_length=300)]
_HEADERS = f"an object of at most {_MAX_ID} texts, each of at most 300 characters"
_HINTS: dict[str, Any] = {
    "id": _Id,
    "checkpoint": Text,
    "moves": Annotated[tuple[_Move, ...], Meta(max_length=MAX_MOVES, description=_MOVES)],
    "fen": Text,
    "variant": Text,
    "simulations": Simulations,
    "temperature": Annotated[float, Meta(ge=0, le=10, description="a number from 0 to 10")],
    "compare": bool,
    "text": str,
    "format": Text,
    "headers": Annotated[dict[str, _Header], Meta(max_length=_MAX_ID, description=_HEADERS)],
    "target": _Id,
}
