"""The text of the Go Text Protocol, version 2: commands, answers, and arguments of analyses.

Source: Gunnar Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002,
sections 2.3 to 2.11, 3.1 and 4.1. The arguments of lz-analyze and kata-analyze are those of Leela
Zero and KataGo.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

from dualmctx.errors import UserError
from dualmctx.protocols.running_game import COLORS

_LARGEST = 2**31
COLUMNS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
"""The letters of the columns, without I."""
_CENTISECONDS = 0.01
# Arguments of KataGo about numbers that a network of dualmctx does not predict.
_WITHOUT_EFFECT = (
    *("ownership", "ownershipStdev", "movesOwnership", "movesOwnershipStdev"),
    *("pvVisits", "pvEdgeVisits"),
)


class GtpError(UserError):
    """A command that fails; the message is the answer."""


class Command(NamedTuple):
    """A command.

    Attributes:
      id: its number as text, which the answer repeats; empty if there is none.
      name: its name; empty if the line has only a number.
      arguments: its arguments.
    """

    id: str
    name: str
    arguments: list[str]


def parse_line(line: str) -> Command | None:
    """Parses a line; `None` if it has no command, such as an empty line or a comment.

    Control characters are dropped, and tabs are spaces. A comment begins with #.
    """
    text = "".join(x for x in line.replace("\t", " ") if ord(x) >= 32 and ord(x) != 127)
    words = text.partition("#")[0].split()
    if not words:
        return None
    first, *rest = words
    if re.fullmatch(r"[0-9]{1,10}", first) and int(first) < _LARGEST:
        return Command(first, rest[0] if rest else "", rest[1:])
    return Command("", first, rest)


def format_answer(id: str, text: str, *, is_error: bool = False) -> str:
    """Returns an answer, which ends with an empty line; it has none before its end."""
    lines = [x.rstrip() for x in text.splitlines()]
    body = "\n".join(x for x in lines if x)
    return f"{'?' if is_error else '='}{id}{' ' if body else ''}{body}\n\n"


def parse_color(text: str) -> int:
    """Returns the side, 0 for black; raises a `GtpError` if the text is no colour."""
    name = text.lower()
    for side, color in enumerate(COLORS):
        if name in (color, color[0]):
            return side
    raise GtpError(f"syntax error: {text[:20]!r} is not a colour, black or white")


def parse_integer(text: str) -> int:
    """Returns a whole number from 0 to 2³¹ - 1; raises a `GtpError` if the text is none."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= _LARGEST:
        raise GtpError(f"syntax error: {text[:20]!r} is not a whole number")
    return int(text)


def parse_number(text: str) -> float:
    """Returns a decimal number; raises a `GtpError` if the text is none."""
    if not re.fullmatch(r"[+-]?([0-9]{1,9}(\.[0-9]*)?|\.[0-9]+)", text):
        raise GtpError(f"syntax error: {text[:20]!r} is not a number")
    return float(text)


def most_handicap_points(size: int) -> int:
    """Returns the number of fixed points for handicap stones on a board."""
    return (9 if size % 2 and size >= 9 else 4) if size >= 7 else 0


def handicap_points(size: int, number: int) -> list[str]:
    """Returns the fixed points of a number of handicap stones; section 4.1.1 of the draft."""
    if not 2 <= number <= most_handicap_points(size):
        raise GtpError(f"invalid number of stones: {number} on a board of size {size}")
    low = 3 if size < 13 else 4
    high, middle = size + 1 - low, (size + 1) // 2
    corners = [(high, high), (low, low), (low, high), (high, low)]
    sides = [(low, middle), (high, middle), (middle, high), (middle, low)]
    center = [(middle, middle)] if number > 4 and number % 2 else []
    points = [*corners, *sides][: number - len(center)] + center
    return [f"{COLUMNS[column - 1]}{row}" for column, row in points]


@dataclasses.dataclass
class AnalysisRequest:
    """The arguments of an analysis.

    Attributes:
      color: the side to move.
      interval: seconds from one report to the next.
      largest: the largest number of moves in a report; `None` for all that were visited.
      smallest: the smallest number; moves without visits fill it.
      has_root: whether a report ends with the root (KataGo's rootInfo).
      avoided: moves that are left out, by side, as text.
      allowed: the only moves that are searched, by side, as text; empty for all.
    """

    color: int = 0
    interval: float = 1.0
    largest: int | None = None
    smallest: int = 0
    has_root: bool = False
    avoided: dict[int, list[str]] = dataclasses.field(default_factory=lambda: {0: [], 1: []})
    allowed: dict[int, list[str]] = dataclasses.field(default_factory=lambda: {0: [], 1: []})


def parse_analysis(arguments: Sequence[str], side: int) -> AnalysisRequest:
    """Parses the arguments of an analysis, by default for a side; wrong ones raise a `GtpError`."""
    request, words = AnalysisRequest(side), list(arguments)
    if words and words[0].lower() in ("b", "w", *COLORS):
        request.color = parse_color(words.pop(0))
    if words and words[0].isdigit():
        request.interval = _CENTISECONDS * parse_integer(words.pop(0))
    while words:
        name = words.pop(0)
        if name in ("avoid", "allow"):
            color, moves, until = (_take(words, name) for _ in range(3))
            parse_integer(until)
            chosen = request.avoided if name == "avoid" else request.allowed
            chosen[parse_color(color)] += moves.split(",")
        elif name == "interval":
            request.interval = _CENTISECONDS * parse_integer(_take(words, name))
        elif name == "minmoves":
            request.smallest = parse_integer(_take(words, name))
        elif name == "maxmoves":
            request.largest = parse_integer(_take(words, name))
        elif name == "rootInfo":
            request.has_root = _take(words, name).lower() == "true"
        elif name in _WITHOUT_EFFECT:
            _take(words, name)
        else:
            raise GtpError(f"syntax error: there is no argument {name[:20]!r}")
    return request


def _take(words: list[str], name: str) -> str:
    if not words:
        raise GtpError(f"syntax error: {name} needs a value")
    return words.pop(0)
