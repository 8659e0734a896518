"""A thinker whose searches are made up: nothing is compiled for them, and nothing is random."""

import itertools
import queue
from collections.abc import Sequence
from typing import Any

from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Events, Found, Limits, Thinker

STEP, FULL = 8, 32
"""The simulations of a step, and those that fill the trees."""


def make_row(
    game: RunningGame, simulations: int, allowed: tuple[int, ...] | None, *, is_final: bool
) -> dict[str, Any]:
    """Returns a row; each move has half of the visits that the moves before it leave."""
    left, legal = simulations, []
    actions = game.legal() if allowed is None else list(allowed)
    for action in actions:
        visits = (left + 1) // 2
        left -= visits
        q = 0.5 - 0.25 * len(legal) if visits else None
        row = {"action": action, "move": game.name(action), "visits": visits, "q": q}
        legal.append(row | {"network_policy": [0.0, 1 / len(actions)]})
    first = legal[0]
    return {
        **{"action": first["action"], "move": first["move"], "value": 0.25},
        **{"network_value": [0.0, 0.125], "pv": [first["move"]], "legal": legal},
        **{"simulations": simulations, "reused": 0, "final": is_final},
    }


class FakeThinker(Thinker):
    """Gives all rows of a search at once; without a limit, until its trees are full.

    Attributes:
      started: the limits and the allowed actions of each search.
      stops: the number of searches that have ended.
      script: the events of the next search: lines, and numbers of rows.
      lines: the expected lines of the next rows; then each has one move.
    """

    def __init__(self, events: Events, game: RunningGame) -> None:
        self.budget, self._number, self._events, self._compiling = 16, 0, events, 0
        self.game = game
        self.started: list[tuple[Limits, tuple[int, ...] | None]] = []
        self.stops = 0
        self.script: Sequence[int | str | None] = ()
        self.lines: list[list[str]] = []

    def _start(self, game: RunningGame, limits: Limits, allowed: tuple[int, ...] | None) -> int:
        self._number += 1
        self.started.append((limits, allowed))
        last = min(limits.simulations or FULL, FULL)
        rows = (
            make_row(game, number, allowed, is_final=number >= last)
            for number in range(STEP, last + STEP, STEP)
        )
        script, self.script = self.script or [FULL], ()
        for event in script:
            if isinstance(event, int):
                for row in itertools.islice(rows, event):
                    row |= {"pv": self.lines.pop(0)} if self.lines else {}
                    self._events.put(Found(self._number, row))
            else:
                self._events.put(event)
        return self._number

    def _stop(self) -> None:
        self.stops += 1

    def clear(self) -> None:
        pass

    def close(self, seconds: float) -> bool:
        del seconds
        return True


class Client:
    """Sends lines to a session, which runs in this thread.

    Attributes:
      game: the game of the session.
      events: its events.
      thinker: its engine.
      session: the session, which the subclass makes.
    """

    session: Any

    def __init__(self, game: RunningGame) -> None:
        self.game, self.written = game, list[str]()
        game.begin()
        self.events = Events(iter(queue.SimpleQueue[Any]().get, None))
        self.thinker = FakeThinker(self.events, game)

    def send(self, *lines: str) -> str:
        """Returns what the session writes to some lines."""
        self.written.clear()
        for line in lines:
            self.session.answer(line)
        return "".join(self.written)
