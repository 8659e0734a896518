"""The text of the Go Text Protocol, version 2: commands, answers, colours and points.

Source: Gunnar Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002,
sections 2.3 to 2.11 and 3.1.
"""

import re
from typing import NamedTuple

from dualmctx.errors import UserError

COLORS = ("black", "white")
"""The names of the sides; the side that begins is black."""
COLUMNS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
"""The letters of columns, without I."""
_LARGEST = 2**31


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
    # A text of several lines, such as a board, begins on a line of its own.
    separator = "\n" if "\n" in body and not is_error else " "
    return f"{'?' if is_error else '='}{id}{separator if body else ''}{body}\n\n"


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


def vertex(row: int, column: int) -> str:
    """Returns the name of a point; rows count from the bottom, and both from 0."""
    return f"{COLUMNS[column]}{row + 1}"
