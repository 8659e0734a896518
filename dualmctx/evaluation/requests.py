"""Requests of `dualmctx serve`: a position with the settings of its search, or a command."""

import functools
import math
import reprlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from dualmctx.errors import UserError
from dualmctx.evaluation.fields import POSITION_FIELDS, perhaps
from dualmctx.evaluation.positions_file import read_object
from dualmctx.evaluation.questions import Question, to_question
from dualmctx.evaluation.text_files import Line, read_lines

COMMANDS = ("cancel", "cancel_all", "clear", "status", "version")
"""The commands that a request may name."""
_MAX_PRIORITY, _MAX_TEXT = 2**31 - 1, 300


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
      size: bytes of the line.
      priority: requests with a higher priority are served first.
      analysis: the settings of the search; `None` for the search of the command line.
      command: one of `COMMANDS`, or `None`.
      target: the id of the requests to cancel.
    """

    question: Question
    size: int
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

    question, size = to_question(line, read), len(line.data)
    if not settings or question.error is not None:
        return Request(question, size)
    try:
        return _with_settings(question, size, settings)
    except UserError as error:
        return Request(question._replace(error=str(error)), size)


def _with_settings(question: Question, size: int, settings: dict[str, Any]) -> Request:
    """Checks the settings of a request, which are among all fields of a line.

    Raises:
      ValueError: if a value is invalid; the message has the field, the value and the remedy.
    """
    for name in settings.keys() - _NAMES - _POSITION:
        _check_name(name[:_MAX_TEXT])
    given = {name: x for name, x in settings.items() if name in _NAMES and x is not None}
    values = {name: _CHECKS[name](name, x) for name, x in given.items()}
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


def refuse(name: str, value: Any, remedy: str) -> UserError:
    """Returns the error of a field: its name, its value and the values that are possible."""
    return UserError(f"{name} is {reprlib.repr(value)}; it must be {remedy}")


def _check_text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_TEXT:
        raise refuse(name, value, f"text of at most {_MAX_TEXT} characters, such as alphazero")
    return value.strip()


def _check_command(name: str, value: Any) -> str:
    if value not in COMMANDS:
        raise refuse(name, value, f"one of {', '.join(COMMANDS)}")
    return value


def _check_target(name: str, value: Any) -> int | str:
    if type(value) not in (int, str):
        raise refuse(name, value, "the id of a request")
    return value


def check_simulations(name: str, value: Any) -> tuple[int, ...]:
    """Returns a number of simulations, or a list of them, as a tuple; raises a ValueError."""
    numbers = value if isinstance(value, list) else [value]
    is_valid = all(type(x) is int and 0 <= x < 2**31 for x in numbers) and sum(numbers) >= 1
    if not is_valid or len(numbers) > _MAX_TEXT:
        raise refuse(name, value, "a whole number of at least 1, or a list of one for each tree")
    return tuple(numbers)


def _check_seconds(name: str, value: Any) -> float:
    is_number = type(value) in (int, float) and 0 < value < math.inf
    if not is_number:
        raise refuse(name, value, "a positive number of seconds")
    return float(min(value, 1e9))


def _check_reuse(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise refuse(name, value, "true or false")
    return value


def _check_priority(name: str, value: Any) -> int:
    if type(value) is not int or abs(value) > _MAX_PRIORITY:
        raise refuse(name, value, f"a whole number from -{_MAX_PRIORITY} to {_MAX_PRIORITY}")
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "variant": _check_text,
    "simulations": check_simulations,
    "max_time": _check_seconds,
    "report_every": _check_seconds,
    "reuse": _check_reuse,
    "priority": _check_priority,
    "command": _check_command,
    "target": _check_target,
}
_NAMES, _POSITION = frozenset(_CHECKS), frozenset(POSITION_FIELDS)
