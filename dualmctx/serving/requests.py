"""Requests of `dualmctx serve`: a position with the settings of its search, or a command."""

import functools
import reprlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

from msgspec import Meta

from dualmctx.errors import UserError
from dualmctx.game_files.positions_file import read_object
from dualmctx.game_files.questions import (
    POSITION_FIELDS,
    RESERVED,
    Question,
    perhaps,
    to_question,
)
from dualmctx.game_files.text_files import Line, read_lines
from dualmctx.typed_values import decode

COMMANDS = ("cancel", "cancel_all", "clear", "status", "version")
"""The commands that a request may name."""
_MAX_NAME = 300
# Fields of rows that say whether a request has ended.
_RESERVED = RESERVED | {"final", "cancelled"}


class Analysis(NamedTuple):
    """The settings of a search of its own, which may go on in steps.

    Attributes:
      variant: a search in the grammar of the command line; `None` for the default search.
      simulations: one number for all trees together, or a number for each tree; `None` if not set.
      max_time: seconds, positive; `None` for no limit.
      report_every: seconds between interim results, positive; `None` for no interim results.
      reuse: whether to continue from a kept tree.
      is_maximum: whether fewer simulations are run if the memory for trees does not hold as many;
        otherwise this is an error.
    """

    variant: str | None = None
    simulations: tuple[int, ...] | None = None
    max_time: float | None = None
    report_every: float | None = None
    reuse: bool = True
    is_maximum: bool = False


class Request(NamedTuple):
    """A line of the input.

    Attributes:
      question: the position; with a command, only its `id` and `line` are used.
      size: bytes of the line; 0 if there is none.
      priority: requests with a higher priority are served first.
      analysis: the settings of the search; `None` for the search of the command line.
      command: one of `COMMANDS`, or `None`.
      target: the id of the requests to cancel.
    """

    question: Question
    size: int = 0
    priority: int = 0
    analysis: Analysis | None = None
    command: str | None = None
    target: int | str | None = None


def read_requests(file: BinaryIO) -> Iterator[Request]:
    """Reads requests as JSON Lines: the fields of a position, and those of `Request`.

    Args:
      file: a file opened for reading, at its beginning.

    Returns:
      One request per line that is not blank. The question of an invalid line has an `error`.
    """
    return map(_read_request, read_lines(file))


def _read_request(line: Line) -> Request:
    settings: dict[str, Any] = {}

    def read(text: str) -> dict[str, Any]:
        fields = read_object(text)
        if fields.keys() <= _POSITION:
            return fields
        settings.update(fields)
        position = {name: x for name, x in fields.items() if name not in _NAMES}
        if fields.get("command") is not None:
            position.setdefault("moves", "")
        return position

    question, size = to_question(line, read, _RESERVED), len(line.data)
    if not settings or question.error is not None:
        return Request(question, size)
    try:
        return _with_settings(question, size, settings)
    except UserError as error:
        return Request(question._replace(error=str(error)), size)


def _with_settings(question: Question, size: int, settings: dict[str, Any]) -> Request:
    """Checks the settings of a request, which are among all fields of a line."""
    for name in settings.keys() - _NAMES - _POSITION:
        _check_name(name[:_MAX_NAME])
    given = {name: x for name, x in settings.items() if name in _NAMES and x is not None}
    values = {name: decode_setting(name, x, _HINTS[name]) for name, x in given.items()}
    command, target = values.pop("command", None), values.pop("target", None)
    if (command == "cancel") != (target is not None):
        raise UserError("the command cancel needs a target, the id of a request; others have none")
    if command is not None and values:
        raise UserError(f"the command {command} has no field {next(iter(values))}; remove it")
    priority = values.pop("priority", 0)
    analysis = Analysis(**values) if values else None
    return Request(question, size, priority, analysis, command, target)


@functools.lru_cache(maxsize=1024)
def _check_name(name: str) -> None:
    """Refuses a field whose name is nearly that of a setting, which would have no effect."""
    meant = perhaps(name, _NAMES, cutoff=0.8)
    if meant:
        raise UserError(f"there is no field {reprlib.repr(name)}{meant}")


def decode_setting(name: str, value: Any, hint: Any) -> Any:
    """Converts a field to a type.

    One number of simulations becomes a tuple. Times are cut to 1e9 seconds (30 years), because
    clocks cannot add much larger ones.

    Raises:
      UserError: as `decode`.
    """
    found = decode(name, value, hint)
    if hint is _Seconds:
        return min(found, 1e9)
    return (found,) if hint is Simulations and isinstance(found, int) else found


Text = Annotated[
    str,
    Meta(pattern=r"\S", max_length=300, description="text of at most 300 characters"),
]
"""A short text that is not empty."""
_Tree = Annotated[int, Meta(ge=0, lt=2**31)]
Simulations = Annotated[
    Annotated[int, Meta(ge=1, lt=2**31)]
    | Annotated[tuple[_Tree, ...], Meta(min_length=1, max_length=300)],
    Meta(description="a whole number of at least 1, or a list of one for each tree"),
]
"""A number of simulations, or one for each tree."""
_PRIORITIES = f"a whole number from -{2**31 - 1} to {2**31 - 1}"
_POSITIVE = Meta(gt=0, le=sys.float_info.max, description="a positive number of seconds")
_Seconds = Annotated[float, _POSITIVE]
_HINTS: dict[str, Any] = {
    "variant": Text,
    "simulations": Simulations,
    "max_time": _Seconds,
    "report_every": _Seconds,
    "reuse": bool,
    "priority": Annotated[int, Meta(gt=-(2**31), lt=2**31, description=_PRIORITIES)],
    "command": Literal[COMMANDS],
    "target": Annotated[int | str, Meta(description="the id of a request")],
}
_NAMES, _POSITION = frozenset(_HINTS), frozenset(POSITION_FIELDS)
