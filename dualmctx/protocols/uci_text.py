"""The text of the Universal Chess Interface: the arguments of its commands.

Source: Stefan Meyer-Kahlen, "Description of the universal chess interface (UCI)", April 2006.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from dualmctx.errors import UserError

_MILLISECOND = 1e-3
_WHOLE = {"wtime", "btime", "winc", "binc", "movestogo", "depth", "nodes", "mate", "movetime"}
_WORDS = {"ponder", "infinite", "searchmoves"}
_LARGEST = 10**9


class Go(NamedTuple):
    """The arguments of `go`; times are in seconds, and `None` if they are not given.

    Attributes:
      moves: the moves to which the search is restricted; none for all.
      is_ponder: whether the search waits for `ponderhit`.
      is_infinite: whether the search waits for `stop`.
      times: the clocks of White and Black.
      increments: seconds that each move adds to them.
      moves_to_go: the moves until more time is added.
      depth: the length of the expected line at which the search ends.
      nodes: the simulations at which it ends.
      move_time: the time at which it ends.
      ignored: arguments without effect, such as mate.
    """

    moves: tuple[str, ...] = ()
    is_ponder: bool = False
    is_infinite: bool = False
    times: tuple[float | None, float | None] = (None, None)
    increments: tuple[float, float] = (0.0, 0.0)
    moves_to_go: int | None = None
    depth: int | None = None
    nodes: int | None = None
    move_time: float | None = None
    ignored: tuple[str, ...] = ()


def parse_go(words: Sequence[str]) -> Go:
    """Parses the words after `go`; raises a `UserError` if a number is missing."""
    numbers, found, moves, ignored = dict[str, int](), set[str](), list[str](), list[str]()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in _WHOLE:
            numbers[word] = _to_int(word, rest.pop(0) if rest else "")
        elif word == "searchmoves":
            while rest and rest[0] not in _WHOLE | _WORDS:
                moves.append(rest.pop(0))
        elif word in _WORDS:
            found.add(word)
        else:
            ignored.append(word)
    ignored += ["mate"] * ("mate" in numbers)

    def seconds(name: str) -> float | None:
        return numbers[name] * _MILLISECOND if name in numbers else None

    return Go(
        moves=tuple(moves),
        is_ponder="ponder" in found,
        is_infinite="infinite" in found,
        times=(seconds("wtime"), seconds("btime")),
        increments=(seconds("winc") or 0.0, seconds("binc") or 0.0),
        moves_to_go=numbers.get("movestogo"),
        depth=numbers.get("depth"),
        nodes=numbers.get("nodes"),
        move_time=seconds("movetime"),
        ignored=tuple(ignored),
    )


def _to_int(name: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,12}", text):
        raise UserError(f"{name} needs a whole number, not {text[:20]!r}")
    return max(-_LARGEST, min(_LARGEST, int(text)))


class Placed(NamedTuple):
    """The arguments of `position`.

    Attributes:
      fen: the FEN in which the moves begin; `None` for the start of the game.
      moves: the moves.
    """

    fen: str | None = None
    moves: tuple[str, ...] = ()


def parse_position(words: Sequence[str]) -> Placed:
    """Parses the words after `position`; raises a `UserError` if they name no position."""
    at = words.index("moves") if "moves" in words else len(words)
    kind, *fen = words[:at] or [""]
    if kind == "startpos" and not fen:
        return Placed(None, tuple(words[at + 1 :]))
    if kind == "fen" and fen:
        return Placed(" ".join(fen), tuple(words[at + 1 :]))
    raise UserError("position needs startpos, or fen and a FEN, then perhaps moves and the moves")


def parse_option(words: Sequence[str]) -> tuple[str, str]:
    """Returns the name and the value of the words after `setoption`.

    Raises:
      UserError: if there is no name.
    """
    match = re.fullmatch(r"name +(.+?)(?: +value(?: +(.*))?)?", " ".join(words))
    if match is None:
        raise UserError("setoption needs name and a name, then perhaps value and a value")
    return match[1], match[2] or ""
