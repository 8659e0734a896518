"""The clocks of the Go Text Protocol: main time, then Canadian byo-yomi."""

import dataclasses

from dualmctx.protocols.clock import Clock, seconds_for_move


@dataclasses.dataclass
class _Side:
    """Seconds, and the stones to be played in them; 0 stones in main time."""

    seconds: float
    stones: int = 0


class GtpClocks:
    """The time of both sides.

    Source: Go Text Protocol 2, draft 2, section 4.2. Without stones in a byo-yomi that has a time,
    there is no limit.
    """

    def __init__(self, main: int | None = None, byo_yomi: int = 0, stones: int = 0) -> None:
        """Takes the settings in seconds; `None` for no limit."""
        self._is_limited = main is not None and not (byo_yomi > 0 and stones == 0)
        self._main, self._byo_yomi, self._stones = main or 0, byo_yomi, stones
        self._sides: list[_Side] = []
        self.begin()

    def begin(self) -> None:
        """Sets both clocks to the start of a game."""
        self._sides = [self._first(), self._first()]

    def _first(self) -> _Side:
        return _Side(self._main) if self._main else _Side(self._byo_yomi, self._stones)

    def set(self, side: int, seconds: float, stones: int) -> None:
        """Sets the clock of a side, as `time_left`."""
        self._is_limited = True
        self._sides[side] = _Side(seconds, stones)

    def seconds(self, side: int, overhead: float) -> float | None:
        """Returns the seconds for the next move of a side; `None` without a limit."""
        if not self._is_limited:
            return None
        clock = self._sides[side]
        if self._stones and clock.stones == 0 and clock.seconds <= overhead:
            # The main time is over.
            clock = _Side(self._byo_yomi, self._stones)
        return seconds_for_move(Clock(clock.seconds, 0.0, clock.stones or None), overhead)

    def spend(self, side: int, seconds: float) -> None:
        """Subtracts the time of a move, for clients that do not send `time_left`."""
        clock = self._sides[side]
        is_byo_yomi = clock.stones > 0
        clock.seconds -= seconds
        clock.stones -= is_byo_yomi
        if self._stones and clock.stones == 0 and (is_byo_yomi or clock.seconds <= 0):
            self._sides[side] = _Side(self._byo_yomi, self._stones)
