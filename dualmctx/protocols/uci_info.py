"""The lines `info` of the Universal Chess Interface: scores, lines of play, statistics of moves."""

import math

from dualmctx.evaluation.questions import Row
from dualmctx.protocols.ranking import RankedMove, rank, winrate
from dualmctx.protocols.uci_options import UciOptions

_LARGEST_SCORE = 12_800
_SCALE, _STEEPNESS = 90.0, 1.5637541897


def centipawns(value: float) -> int:
    """Returns a score in hundredths of a pawn for a value from -1 to 1.

    It is 90 tan(1.5637541897 value), as in Leela Chess Zero, and at most 12,800.
    """
    bounded = min(1.0, max(-1.0, value))
    score = round(_SCALE * math.tan(_STEEPNESS * bounded))
    return max(-_LARGEST_SCORE, min(_LARGEST_SCORE, score))


def chances(value: float) -> tuple[int, int, int]:
    """Returns wins, draws and losses of 1,000 games with a mean result of a value from -1 to 1.

    A network of dualmctx does not predict draws, so there are none.
    """
    wins = round(1000 * winrate(value))
    return wins, 0, 1000 - wins


def format_info(row: Row, seconds: float, options: UciOptions) -> list[str]:
    """Returns a line for each of the best moves.

    Args:
      row: the row of a search.
      seconds: the time since the search began.
      options: the options of the session.
    """
    visited = [move for move in rank(row) if move.visits > 0] or rank(row)[:1]
    nodes, new = row["simulations"], row["simulations"] - row["reused"]
    counts = f"nodes {nodes} nps {round(new / max(seconds, 1e-3))} time {round(1000 * seconds)}"
    return [
        f"info depth {len(move.line)} {counts} multipv {number} {_score(row, move, options)}"
        f" pv {' '.join(move.line)}"
        for number, move in enumerate(visited[: options.lines], start=1)
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
