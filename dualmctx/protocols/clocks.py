"""How long to think about a move: a share of the time that is left; and the clocks of GTP."""

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
      moves: the number of moves in this time, at least 1; `None` for all moves of the game.
    """

    remaining: float
    increment: float = 0.0
    moves: int | None = None

    def seconds(self, overhead: float) -> float:
        """Returns the seconds for the next move, of which `overhead` pass outside of the search.

        It is an equal share of the remaining time for each expected move, and most of the
        increment. Unless the next move is the last one in this time, it is at most half of the
        remaining time.
        """
        usable = max(0.0, self.remaining - overhead)
        moves = self.moves or EXPECTED_MOVES
        share = usable / moves + _INCREMENT_SHARE * self.increment
        largest = usable if moves == 1 else _LARGEST_SHARE * usable
        return max(0.0, min(share, largest))


class GtpClocks:
    """The clocks of both sides in the Go Text Protocol: main time, then Canadian byo-yomi.

    Source: Go Text Protocol 2, draft 2, section 4.2. Without stones in a byo-yomi that has a time,
    there is no limit.
    """

    def __init__(self, main: int | None = None, byo_yomi: int = 0, stones: int = 0) -> None:
        """Takes the settings in seconds; `None` for no limit."""
        # In byo-yomi, a clock has as many moves as there are stones.
        self._byo_yomi = Clock(byo_yomi, moves=stones or None)
        is_limited = main is not None and not (byo_yomi > 0 and stones == 0)
        self._first = (Clock(main) if main else self._byo_yomi) if is_limited else None
        self.begin()

    def begin(self) -> None:
        """Sets both clocks to the start of a game."""
        self._sides: list[Clock | None] = [self._first, self._first]

    def set(self, side: int, seconds: float, stones: int) -> None:
        """Sets the clock of a side, as `time_left`."""
        self._sides[side] = Clock(seconds, moves=stones or None)

    def seconds(self, side: int, overhead: float) -> float | None:
        """Returns the seconds for the next move of a side; `None` without a limit."""
        clock = self._sides[side]
        if clock is None:
            return None
        if clock.moves is None and clock.remaining <= overhead and self._byo_yomi.moves:
            # The main time is over.
            clock = self._byo_yomi
        return clock.seconds(overhead)

    def spend(self, side: int, seconds: float) -> None:
        """Subtracts the time of a move, for clients that do not send `time_left`."""
        clock = self._sides[side]
        if clock is None:
            return
        remaining, moves = clock.remaining - seconds, clock.moves and clock.moves - 1
        is_over = moves == 0 or (moves is None and remaining <= 0)
        is_next = is_over and self._byo_yomi.moves
        self._sides[side] = self._byo_yomi if is_next else Clock(remaining, moves=moves or None)
