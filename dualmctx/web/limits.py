"""Limits of the server on the requests of one page and of all pages together."""

import dataclasses
import time
from collections.abc import Callable

MAX_MESSAGE_BYTES = 2**18
"""The largest message that is read; a longer one is answered with an error."""
MAX_FRAME_BYTES = 2**20
"""The largest message that is received; a longer one closes the connection with code 1009."""
MAX_MOVES = 1000
"""The largest number of moves of a position."""
MAX_RECORDED = 500
"""The largest number of simulations of a recorded search, whose recording has a few MB."""
MAX_TASKS = 16
"""The largest number of messages of a connection that are being answered."""
MAX_SILENT_SECONDS = 10.0
"""The time after which a connection without a whole request is closed."""
MESSAGES_PER_SECOND = 50
"""The rate at which the messages of a connection are read in the long run."""
MESSAGE_BURST = 100
"""The number of messages of a connection that are read without waiting."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits that the command line sets.

    Attributes:
      simulations: the largest number of simulations of a position.
      sessions: the largest number of open connections.
      networks: the largest number of networks whose searches are compiled.
    """

    simulations: int = 2000
    sessions: int = 64
    networks: int = 3


class Rate:
    """A token bucket, which says how long to wait before the next message is read."""

    def __init__(
        self,
        per_second: float = MESSAGES_PER_SECOND,
        burst: float = MESSAGE_BURST,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Takes tokens per second, the size of the bucket, which is full, and a clock."""
        self._per_second, self._burst, self._now = per_second, burst, now
        self._tokens, self._filled = burst, now()

    def take(self) -> float:
        """Takes a token; returns the seconds to wait, 0 if there was one."""
        now = self._now()
        filled = self._tokens + (now - self._filled) * self._per_second
        self._tokens, self._filled = min(self._burst, filled) - 1, now
        return max(0.0, -self._tokens / self._per_second)
