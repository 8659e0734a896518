"""The budgets of the players of a tournament, before and after they are scaled."""

import dataclasses

from dualmctx.models.costs import Measured, Simulations

SIMULATIONS, NETWORK, SECONDS = "simulations", "network", "seconds"
"""The rules by which budgets are equal."""


@dataclasses.dataclass(frozen=True)
class Budget:
    """The simulations of a player.

    Attributes:
      asked: requested simulations, before scaling, one number per tree; `None` if the player has
        none.
      simulations: simulations after scaling.
      target: the cost to which they are scaled, in blocks or seconds per move; `None` without
        scaling.
      measured: all time measurements; the last one is for `simulations`.
    """

    asked: Simulations | None
    simulations: Simulations | None
    target: float | None = None
    measured: tuple[Measured, ...] = ()


@dataclasses.dataclass(frozen=True)
class Budgets:
    """The budgets of all players.

    Attributes:
      rule: `simulations`, `network` or `seconds`.
      reference: the player to whose cost the others are scaled; `None` without scaling.
      target: the cost of the reference, in blocks or seconds per move.
      players: budget of each player, by name.
    """

    rule: str
    reference: str | None
    target: float | None
    players: dict[str, Budget]
