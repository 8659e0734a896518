"""Runs one search for a client that waits for its end."""

import time
from collections.abc import Callable

from dualmctx.errors import UserError
from dualmctx.evaluation.questions import Row
from dualmctx.protocols.events import LATE, Events, Found
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Limits, Thinker


def wait_until_ready(thinker: Thinker, events: Events) -> None:
    """Waits for the end of the compilation; lines are kept for later.

    Raises:
      UserError: if the search cannot be compiled.
    """
    while not thinker.is_ready:
        event = events.next()
        if not isinstance(event, Found):
            events.postpone(event)
        elif event.search == 0:
            thinker.take_start(event.row)


def search(
    thinker: Thinker,
    events: Events,
    game: RunningGame,
    limits: Limits,
    *,
    deadline: float | None,
    stops: Callable[[str | None], bool],
    report: Callable[[Row], None],
    allowed: tuple[int, ...] | None = None,
    is_brief: bool = False,
) -> Row:
    """Runs a search until its end, its deadline, or a line that stops it.

    It has at least one step. Lines are kept for later.

    Args:
      thinker: the engine, which is ready.
      events: the lines, and the rows of the engine.
      game: the game, which is not over.
      limits: the limits of the search.
      deadline: the time, of `time.monotonic`, at which its result is due; `None` for no limit.
      stops: whether a line stops the search; `None` is the end of the input.
      report: called with each row.
      allowed: as in `Thinker.start`.
      is_brief: whether it ends after the first step.

    Returns:
      The last row that arrived in time.

    Raises:
      UserError: if the search fails.
    """
    number, row, is_stopped = thinker.start(game, limits, allowed), None, is_brief
    while True:
        event = events.next(None if row is None else deadline)
        if isinstance(event, Found):
            if event.search != number:
                continue
            row = event.row
            if "error" in row:
                raise UserError(row["error"])
            report(row)
            if row.get("final") is not False:
                return row
        elif event is not LATE:
            events.postpone(event)
            is_stopped |= stops(event)
        is_late = deadline is not None and time.monotonic() >= deadline
        if row is not None and (is_stopped or is_late):
            thinker.stop()
            return row
