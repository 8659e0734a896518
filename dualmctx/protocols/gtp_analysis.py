"""Analyses of the Go Text Protocol: the arguments and the lines of lz-analyze and kata-analyze."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

from dualmctx.evaluation.questions import Row
from dualmctx.protocols.gtp_text import GtpError, parse_color, parse_integer
from dualmctx.protocols.ranking import rank, winrate

_CENTISECONDS = 0.01
_DEFAULT_INTERVAL = 1.0
# Arguments of KataGo about numbers that a network of dualmctx does not predict.
_WITHOUT_EFFECT = ("ownership", "movesOwnership", "ownershipStdev", "pvVisits", "pvEdgeVisits")


@dataclasses.dataclass
class AnalysisRequest:
    """The arguments of an analysis.

    Attributes:
      color: the side to move; `None` for the one whose turn it is.
      interval: seconds from one report to the next.
      largest: the largest number of moves in a report; `None` for all that were visited.
      smallest: the smallest number; moves without visits fill it.
      has_root: whether a report ends with the root (KataGo's rootInfo).
      avoided: moves that are left out, by side, as text.
      allowed: the only moves that are searched, by side, as text; empty for all.
    """

    color: int | None = None
    interval: float = _DEFAULT_INTERVAL
    largest: int | None = None
    smallest: int = 0
    has_root: bool = False
    avoided: dict[int, list[str]] = dataclasses.field(default_factory=lambda: {0: [], 1: []})
    allowed: dict[int, list[str]] = dataclasses.field(default_factory=lambda: {0: [], 1: []})


def parse_analysis(arguments: Sequence[str]) -> AnalysisRequest:
    """Parses the arguments of an analysis; raises a `GtpError` if they are wrong."""
    request, words = AnalysisRequest(), list(arguments)
    if words and words[0].lower() in ("b", "w", "black", "white"):
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


def format_report(
    row: Row, request: AnalysisRequest, name: Callable[[str], str], *, is_kata: bool
) -> str:
    """Returns the line of a report.

    Winning rates are (1 + Q) / 2, in the view of the player to move. Leela Zero's numbers are parts
    of 10,000, KataGo's are from 0 to 1. There is no score and no lower bound of the winning rate.

    Args:
      row: the row of a search.
      request: the arguments of the analysis.
      name: returns the name of a move in this session.
      is_kata: whether the line has KataGo's form.
    """
    ranked, parts = rank(row), list[str]()
    number = max(request.smallest, sum(move.visits > 0 for move in ranked))
    number = number if request.largest is None else min(number, request.largest)
    for order, move in enumerate(ranked[: max(1, number)]):
        q = row["value"] if move.q is None else move.q
        if is_kata:
            numbers = f"winrate {winrate(q):.6f} utility {q:.6f} prior {move.prior:.6f}"
        else:
            numbers = f"winrate {_parts(winrate(q))} prior {_parts(move.prior)}"
        line = " ".join(map(name, move.line))
        parts.append(
            f"info move {name(move.name)} visits {move.visits} {numbers} order {order} pv {line}"
        )
    if is_kata and request.has_root:
        value = row["value"]
        root = f"winrate {winrate(value):.6f} utility {value:.6f}"
        parts.append(f"rootInfo visits {row['simulations']} {root}")
    return " ".join(parts)


def _parts(probability: float) -> int:
    return round(10_000 * probability)


class Reporter:
    """Writes the reports of an analysis at intervals; the first line is the sign of the answer.

    Attributes:
      is_begun: whether it has written something.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        report: Callable[[Row], str],
        *,
        id: str,
        interval: float,
    ) -> None:
        """Takes the parts of an answer.

        Args:
          write: writes text.
          report: returns the line of a report.
          id: the number of the command.
          interval: seconds from one report to the next.
        """
        self._write, self._report, self._interval = write, report, interval
        self._id, self._last, self.is_begun = id, -math.inf, False
        self._reported: Row | None = None

    def __call__(self, row: Row) -> None:
        """Reports a row if it is time for it."""
        now = time.monotonic()
        if now - self._last >= self._interval:
            self._last, self._reported = now, row
            self.add(self._report(row))

    def finish(self, row: Row) -> None:
        """Reports the last row, unless that has been done."""
        if row is not self._reported:
            self.add(self._report(row))

    def add(self, line: str = "") -> None:
        """Writes a line; an empty one ends the answer."""
        head = "" if self.is_begun else f"={self._id}\n"
        self.is_begun = True
        self._write(f"{head}{line}\n")
