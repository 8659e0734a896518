"""A thinker whose searches are made up: nothing is compiled for them, and nothing is random."""

from typing import Any

from dualmctx.protocols.events import Events, Found
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Limits

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
        "action": first["action"],
        "move": first["move"],
        "value": 0.25,
        "network_value": [0.0, 0.125],
        "pv": [first["move"]],
        "legal": legal,
        "simulations": simulations,
        "reused": 0,
        "final": is_final,
    }


class FakeThinker:
    """Gives all rows of a search at once; without a limit, until its trees are full.

    Attributes:
      started: the limits and the allowed actions of each search.
      stops: the number of searches that were stopped.
      held: whether searches give no rows before `release`.
    """

    budget = 16

    def __init__(self, events: Events, *, held: bool = False) -> None:
        self._events, self.held = events, held
        self.started: list[tuple[Limits, tuple[int, ...] | None]] = []
        self.stops, self.number, self.is_ready = 0, 0, True
        self._rows: list[dict[str, Any]] = []

    def start(
        self, game: RunningGame, limits: Limits, allowed: tuple[int, ...] | None = None
    ) -> int:
        self.number += 1
        self.started.append((limits, allowed))
        last = min(limits.simulations or FULL, FULL)
        self._rows = [
            make_row(game, number, allowed, is_final=number >= last)
            for number in range(STEP, last + STEP, STEP)
        ]
        if not self.held:
            self.release(len(self._rows))
        return self.number

    def release(self, number: int) -> None:
        for row in self._rows[:number]:
            self._events.put(Found(self.number, row))
        del self._rows[:number]

    def take_start(self, row: Any) -> None:
        self.is_ready = True

    def stop(self) -> None:
        self.stops += 1

    def clear(self) -> None:
        pass

    def close(self, seconds: float) -> bool:
        return True
