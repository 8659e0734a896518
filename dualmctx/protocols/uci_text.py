"""The text of the Universal Chess Interface: its options, and the arguments of its commands.

Source: Stefan Meyer-Kahlen, "Description of the universal chess interface (UCI)", April 2006.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

from dualmctx.errors import UserError

_MILLISECOND = 1e-3
_WHOLE = {"wtime", "btime", "winc", "binc", "movestogo", "depth", "nodes", "mate", "movetime"}
_WORDS = {"ponder", "infinite", "searchmoves"}
_LARGEST = 10**9
_MAX_LINES = 500
MAX_OVERHEAD = 60.0
"""The largest number of seconds of a move that pass outside of the search."""
VARIANTS = {"chess": "", "gardner_chess": "gardner"}
"""The games of the protocol, with the value of the option UCI_Variant; chess has no such option."""
CLEAR = "Clear Hash"
"""The option that drops the kept trees."""


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
      ignored: arguments without effect, such as mate, and those without their whole number.
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
    """Parses the words after `go`."""
    numbers, found, moves, ignored = dict[str, int](), set[str](), list[str](), list[str]()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in _WHOLE:
            text = rest.pop(0) if rest and rest[0] not in _WHOLE | _WORDS else ""
            if re.fullmatch(r"-?[0-9]{1,12}", text):
                numbers[word] = max(-_LARGEST, min(_LARGEST, int(text)))
            else:
                ignored.append(f"{word} {text[:20]!r} (not a whole number)")
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
        moves_to_go=max(0, numbers.get("movestogo", 0)) or None,
        depth=numbers.get("depth"),
        nodes=numbers.get("nodes"),
        move_time=seconds("movetime"),
        ignored=tuple(ignored),
    )


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
    """Returns the name and the value of the words after `setoption`."""
    match = re.fullmatch(r"name +(.+?)(?: +value(?: +(.*))?)?", " ".join(words))
    if match is None:
        raise UserError("setoption needs name and a name, then perhaps value and a value")
    return match[1], match[2] or ""


@dataclasses.dataclass
class UciOptions:
    """The values of the options that a session offers.

    Attributes:
      lines: the largest number of lines in an analysis.
      has_statistics: whether the statistics of all moves follow each search.
      has_wdl: whether scores have the chances to win, draw and lose.
      overhead: seconds of a move that pass outside of the search.
      simulations: the simulations of a search without limits; its trees have a limit of their own.
      has_budget: whether they are also a limit under a clock.
      max_simulations: the largest number of simulations.
      variant: the name of the variant of chess; empty for chess.
    """

    lines: int = 1
    has_statistics: bool = False
    has_wdl: bool = True
    overhead: float = 0.05
    simulations: int = 1
    has_budget: bool = False
    max_simulations: int = 10_000
    variant: str = ""

    def declarations(self) -> dict[str, str]:
        """Returns the declaration of each option, by name."""
        spin, check = "type spin default {} min {} max {}".format, "type check default {}".format
        overhead, largest = (round(x / _MILLISECOND) for x in (self.overhead, MAX_OVERHEAD))
        found = {
            "MultiPV": spin(self.lines, 1, _MAX_LINES),
            "VerboseMoveStats": check(str(self.has_statistics).lower()),
            "UCI_ShowWDL": check(str(self.has_wdl).lower()),
            "Ponder": check("false"),
            "Move Overhead": spin(overhead, 0, largest),
            "Simulations": spin(self.simulations, 1, self.max_simulations),
            CLEAR: "type button",
        }
        if self.variant:
            found["UCI_Variant"] = f"type combo default {self.variant} var {self.variant}"
        return found

    def set(self, given: str, value: str) -> str:
        """Sets an option, or raises a `UserError`; returns its name."""
        declared = self.declarations()
        name = next((x for x in declared if x.lower() == given.lower()), None)
        if name is None:
            known = ", ".join(declared)
            raise UserError(f"there is no option {given[:40]!r}; the options are {known}")
        _check_value(name, value, declared[name].split())
        match name:
            case "MultiPV":
                self.lines = int(value)
            case "VerboseMoveStats":
                self.has_statistics = value.lower() == "true"
            case "UCI_ShowWDL":
                self.has_wdl = value.lower() == "true"
            case "Move Overhead":
                self.overhead = int(value) * _MILLISECOND
            case "Simulations":
                self.simulations, self.has_budget = int(value), True
            case _:
                pass
        return name


def _check_value(name: str, value: str, declared: Sequence[str]) -> None:
    """Checks a value by the words of the declaration of its option."""
    match declared:
        case ["type", "spin", "default", _, "min", least, "max", most]:
            is_number = re.fullmatch("[0-9]{1,10}", value) is not None
            is_valid = is_number and int(least) <= int(value) <= int(most)
            remedy = f"a whole number from {least} to {most}"
        case ["type", "check", *_]:
            is_valid, remedy = value.lower() in ("true", "false"), "true or false"
        case ["type", "combo", *_, only]:
            is_valid, remedy = value.lower() == only, only
        case _:
            return
    if not is_valid:
        raise UserError(f"{name} is {value[:40]!r}; it must be {remedy}")
