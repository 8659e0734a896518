"""The moves of a searched position, best first."""

from typing import NamedTuple

from dualmctx.evaluation.questions import Row


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
    lines = {line[0]: line for line in (*row.get("lines", ()), row["pv"]) if line}
    moves = [
        RankedMove(
            move["move"],
            move["visits"] or 0,
            move["q"],
            move["network_policy"][-1] or 0.0,
            lines.get(move["move"], [move["move"]]),
        )
        for move in row["legal"]
    ]
    best = row["move"]
    return sorted(moves, key=lambda x: (x.name != best, -x.visits, -x.prior))


def winrate(value: float) -> float:
    """Returns the probability of a win that has a value from -1 to 1, if no game is drawn."""
    return (1 + min(1.0, max(-1.0, value))) / 2
