"""Rows of searches in the forms of other programs: Leela Zero, KataGo, UCI, Leela Chess Zero."""

from collections.abc import Callable
from typing import NamedTuple

from dualmctx.evaluation.evaluations import centipawns
from dualmctx.game_files.questions import Row
from dualmctx.protocols.gtp_text import AnalysisRequest
from dualmctx.protocols.uci_text import UciOptions


class RankedMove(NamedTuple):
    """A legal move of a searched position.

    Attributes:
      name: the move in the notation of the game.
      visits: its visits.
      q: its value, in the view of the player to move; `None` without visits.
      prior: its probability by the network, from 0 to 1.
      line: the expected moves from this one on.
    """

    name: str
    visits: int
    q: float | None
    prior: float
    line: list[str]


def rank(row: Row) -> list[RankedMove]:
    """Returns the legal moves: the chosen one, then by visits, then by prior."""
    moves = [
        RankedMove(
            move["move"],
            move["visits"] or 0,
            move["q"],
            move["network_policy"][-1] or 0.0,
            row["pv"] if row["pv"][:1] == [move["move"]] else [move["move"]],
        )
        for move in row["legal"]
    ]
    best = row["move"]
    return sorted(moves, key=lambda x: (x.name != best, -x.visits, -x.prior))


def winrate(value: float) -> float:
    """Returns the probability of a win that has a value from -1 to 1, if no game is drawn."""
    return (1 + min(1.0, max(-1.0, value))) / 2


def format_analysis(
    row: Row, request: AnalysisRequest, show: Callable[[list[str]], list[str]], *, is_kata: bool
) -> str:
    """Returns the line of a report of an analysis in GTP.

    Winning rates are (1 + Q) / 2, in the view of the player to move. Leela Zero's numbers are parts
    of 10,000, KataGo's are from 0 to 1. There is no score and no lower bound of the winning rate.

    Args:
      row: the row of a search.
      request: the arguments of the analysis.
      show: returns the names of the moves of a line in this session.
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
            numbers = f"winrate {round(10_000 * winrate(q))} prior {round(10_000 * move.prior)}"
        name, *rest = show(move.line)
        line = " ".join([name, *rest])
        parts.append(f"info move {name} visits {move.visits} {numbers} order {order} pv {line}")
    if is_kata and request.has_root:
        value = row["value"]
        root = f"winrate {winrate(value):.6f} utility {value:.6f}"
        parts.append(f"rootInfo visits {row['simulations']} {root}")
    return " ".join(parts)


def chances(value: float) -> tuple[int, int, int]:
    """Returns wins, draws and losses of 1,000 games with a mean result of a value from -1 to 1.

    A network of dualmctx does not predict draws, so there are none.
    """
    wins = round(1000 * winrate(value))
    return wins, 0, 1000 - wins


def format_info(row: Row, depth: int, seconds: float, options: UciOptions) -> list[str]:
    """Returns a line `info` of UCI for each of the best moves.

    Args:
      row: the row of a search.
      depth: the depth of all lines.
      seconds: the time since the search began.
      options: the options of the session.
    """
    nodes, new = row["simulations"], row["simulations"] - row["reused"]
    counts = f"nodes {nodes} nps {round(new / max(seconds, 1e-3))} time {round(1000 * seconds)}"
    return [
        f"info depth {depth} {counts} multipv {number} {_score(row, move, options)}"
        f" pv {' '.join(move.line)}"
        for number, move in enumerate(rank(row)[: options.lines], start=1)
    ]


def _score(row: Row, move: RankedMove, options: UciOptions) -> str:
    value = row["value"] if move.q is None else move.q
    wdl = f" wdl {' '.join(map(str, chances(value)))}" if options.has_wdl else ""
    return f"score cp {centipawns(value)}{wdl}"


def format_statistics(row: Row) -> list[str]:
    """Returns the statistics of all moves in the form of Leela Chess Zero, the best move last.

    N are visits, P the network's probability, WL and Q the value of the move, and V the network's
    value of the position, which only the line of the root has.
    """
    lines = [
        f"info string {move.name:<5} ({number:>4}) N: {move.visits:>7} (+ 0) "
        f"(P: {100 * move.prior:>5.2f}%) (WL: {_number(move.q)}) (D: 0.000) (Q: {_number(move.q)}) "
        "(V:  -.----)"
        for number, move in enumerate(rank(row))
    ]
    value = row["value"]
    root = (
        f"info string node  ({len(lines):>4}) N: {row['simulations']:>7} (+ 0) (P: 100.0%) "
        f"(WL: {_number(value)}) (D: 0.000) (Q: {_number(value)}) "
        f"(V: {_number(row['network_value'][-1])})"
    )
    return [*lines[::-1], root]


def _number(value: float | None) -> str:
    return " -.-----" if value is None else f"{value:>8.5f}"
