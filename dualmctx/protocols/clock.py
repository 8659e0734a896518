"""How long to think about a move: a share of the time that is left."""

from typing import NamedTuple

EXPECTED_MOVES = 30
"""The moves that a player still has to make, if nothing says how many."""
_INCREMENT_SHARE = 0.8
_LARGEST_SHARE = 0.5


class Clock(NamedTuple):
    """The time of the player to move.

    Attributes:
      remaining: seconds.
      increment: seconds that are added after each move.
      moves: the number of moves in this time; `None` for all moves of the game.
    """

    remaining: float
    increment: float = 0.0
    moves: int | None = None


def seconds_for_move(clock: Clock, overhead: float) -> float:
    """Returns the seconds for the next move, at least 0.

    It is an equal share of the remaining time for each expected move, and most of the increment.
    Unless the next move is the last one in this time, it is at most half of the remaining time.

    Args:
      clock: the time of the player to move.
      overhead: seconds of a move that pass outside of the search.
    """
    usable = max(0.0, clock.remaining - overhead)
    moves = EXPECTED_MOVES if clock.moves is None else max(1, clock.moves)
    share = usable / moves + _INCREMENT_SHARE * clock.increment
    largest = usable if moves == 1 else _LARGEST_SHARE * usable
    return max(0.0, min(share, largest))
