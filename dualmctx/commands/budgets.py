"""The budget rules of `dualmctx compare`, which scale the simulations of each player."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.commands.player_builder import PlayerBuilder
from dualmctx.errors import UserError
from dualmctx.matches.players import Player
from dualmctx.policies.budgets import Measured, Simulations, scale_to_cost, scale_to_seconds
from dualmctx.runs.atomic_io import atomic_write_text

SIMULATIONS, NETWORK, SECONDS = "simulations", "network", "seconds"
FILE = "budgets.json"

MeasureFn = Callable[[Player], float]
"""Measures the seconds per move of a player."""


class Budget(NamedTuple):
    """The simulations of a player.

    Attributes:
      asked: requested simulations, before scaling, one number per tree; `None` if the player has
        none.
      simulations: simulations after scaling.
      measured: all time measurements; the last one is for `simulations`.
    """

    asked: Simulations | None
    simulations: Simulations | None
    measured: tuple[Measured, ...] = ()


class Budgets(NamedTuple):
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


def set_budgets(
    rule: str, builders: Sequence[PlayerBuilder], measure: MeasureFn, known: Budgets | None = None
) -> Budgets:
    """Scales the simulations of all players to the cost of the first player that has one.

    Args:
      rule: see `Budgets`. `simulations` does not scale; `network` does not scale players without a
        network, `seconds` does not scale players without simulations.
      builders: the players.
      measure: measures seconds per move, for the rule `seconds`.
      known: budgets of an earlier session, which do not change.

    Raises:
      ValueError: if the cost of a player is not fixed, or an earlier session had other simulations
        for it.
    """
    unscaled = {x.spec.name: Budget(x.simulations, x.simulations) for x in builders}
    if rule == SIMULATIONS:
        return Budgets(rule, None, None, unscaled)
    known = known or Budgets(rule, None, None, {})
    saved, reference, target = known.players, known.reference, known.target
    scale = _scale_by_blocks if rule == NETWORK else _scale_by_seconds
    budgets: dict[str, Budget] = {}
    for builder in builders:
        name = builder.spec.name
        if name in saved:
            budgets[name] = _reuse(builder, saved[name])
        elif not _is_scaled(rule, builder):
            budgets[name] = unscaled[name]
        else:
            budgets[name], cost = scale(builder, target, measure)
            if target is None:
                reference, target = name, cost
    return Budgets(rule, reference, target, budgets)


def read_budgets(folder: Path) -> Budgets | None:
    """Reads the budgets of an earlier session; returns `None` if there are none."""
    file = folder / FILE
    if not file.exists():
        return None
    try:
        saved = json.loads(file.read_text())
        players = {name: _to_budget(row) for name, row in saved["players"].items()}
        return Budgets(saved["rule"], saved["reference"], saved["target"], players)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"{file} cannot be read ({error!r}); choose another folder") from error


def write_budgets(folder: Path, budgets: Budgets) -> None:
    """Writes budgets atomically; keeps saved budgets of other players."""
    known = read_budgets(folder)
    if known is not None:
        budgets = budgets._replace(players=known.players | budgets.players)
    atomic_write_text(folder / FILE, json.dumps(to_json(budgets)) + "\n")


def to_json(budgets: Budgets) -> dict[str, Any]:
    """Converts budgets to JSON values."""
    players = {
        name: row._asdict() | {"measured": [x._asdict() for x in row.measured]}
        for name, row in budgets.players.items()
    }
    return budgets._asdict() | {"players": players}


def _to_budget(row: dict[str, Any]) -> Budget:
    requested, simulations = (x and tuple(x) for x in (row["asked"], row["simulations"]))
    measured = (Measured(tuple(x["simulations"]), x["seconds"]) for x in row["measured"])
    return Budget(requested, simulations, tuple(measured))


def _reuse(builder: PlayerBuilder, budget: Budget) -> Budget:
    if budget.asked != builder.simulations:
        old, new = (" + ".join(map(str, x or ())) for x in (budget.asked, builder.simulations))
        raise UserError(
            f"player {builder.spec.name!r} had other simulations ({old} → {new}); choose another "
            "name or folder"
        )
    return budget


def _is_scaled(rule: str, builder: PlayerBuilder) -> bool:
    if builder.simulations is None:
        return False
    return rule == SECONDS or bool(_count_blocks(builder, builder.simulations))


def _count_blocks(builder: PlayerBuilder, simulations: Simulations) -> int:
    cost = builder.build(simulations).cost
    if cost is None or cost.blocks is None:
        raise UserError(
            f"player {builder.spec.name!r}: its rollouts have no fixed length, so its cost is not "
            "fixed; set rollout_length"
        )
    return cost.blocks


def _scale_by_blocks(
    builder: PlayerBuilder, target: float | None, measure: MeasureFn
) -> tuple[Budget, float]:
    del measure
    requested = builder.simulations
    assert requested is not None
    if target is None:
        return Budget(requested, requested), float(_count_blocks(builder, requested))
    scaled = scale_to_cost(requested, lambda x: _count_blocks(builder, x), target)
    return Budget(requested, scaled), target


def _scale_by_seconds(
    builder: PlayerBuilder, target: float | None, measure: MeasureFn
) -> tuple[Budget, float]:
    requested = builder.simulations
    assert requested is not None
    if target is None:
        seconds = measure(builder.build(requested))
        return Budget(requested, requested, (Measured(requested, seconds),)), seconds
    rows = scale_to_seconds(requested, lambda x: measure(builder.build(x)), target)
    return Budget(requested, rows[-1].simulations, rows), target
