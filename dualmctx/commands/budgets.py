"""The budget rules of `dualmctx compare`: what a move of each player may cost."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.commands.candidates import Candidate
from dualmctx.matches.players import Entrant
from dualmctx.policies.budgets import Measured, Simulations, scale_to_cost, scale_to_seconds
from dualmctx.runs.atomic_io import atomic_write_text

SIMULATIONS, NETWORK, SECONDS = "simulations", "network", "seconds"
FILE = "budgets.json"

MeasureFn = Callable[[Entrant], float]
"""Measures the seconds a move of an entrant."""


class Budget(NamedTuple):
    """What a player may spend a move.

    Attributes:
      asked: simulations before scaling, a number for each tree; `None` where it has none.
      simulations: after it.
      measured: all that was measured, the last one chosen.
    """

    asked: Simulations | None
    simulations: Simulations | None
    measured: tuple[Measured, ...] = ()


class Budgets(NamedTuple):
    """The budgets of all players.

    Attributes:
      rule: `simulations`, `network` or `seconds`.
      reference: the player whose cost the others get; `None` where nothing is scaled.
      target: that cost, in blocks or seconds a move.
      players: by name.
    """

    rule: str
    reference: str | None
    target: float | None
    players: dict[str, Budget]


def set_budgets(
    rule: str, candidates: Sequence[Candidate], measure: MeasureFn, known: Budgets | None = None
) -> Budgets:
    """Gives all players the same cost as the first that has one.

    Args:
      rule: see `Budgets`. By `simulations` nothing is scaled; by `network` those without a network
        are not, by `seconds` those without simulations.
      candidates: the players.
      measure: for `seconds`.
      known: budgets of an earlier session, which are kept.

    Raises:
      ValueError: when a player's cost is not known, or it was there with other simulations, in one
        line.
    """
    as_given = {x.spec.name: Budget(x.simulations, x.simulations) for x in candidates}
    if rule == SIMULATIONS:
        return Budgets(rule, None, None, as_given)
    known = known or Budgets(rule, None, None, {})
    kept, reference, target = known.players, known.reference, known.target
    scale = _by_blocks if rule == NETWORK else _by_seconds
    found: dict[str, Budget] = {}
    for candidate in candidates:
        name = candidate.spec.name
        if name in kept:
            found[name] = _keep(candidate, kept[name])
        elif not _is_scaled(rule, candidate):
            found[name] = as_given[name]
        else:
            found[name], cost = scale(candidate, target, measure)
            if target is None:
                reference, target = name, cost
    return Budgets(rule, reference, target, found)


def read_budgets(folder: Path) -> Budgets | None:
    """Reads the budgets of an earlier session; `None` if there are none."""
    file = folder / FILE
    if not file.exists():
        return None
    try:
        found = json.loads(file.read_text())
        players = {name: _to_budget(row) for name, row in found["players"].items()}
        return Budgets(found["rule"], found["reference"], found["target"], players)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{file} cannot be read: {error!r}") from error


def write_budgets(folder: Path, budgets: Budgets) -> None:
    """Writes budgets, complete or not at all; those of players that are not among them stay."""
    known = read_budgets(folder)
    if known is not None:
        budgets = budgets._replace(players=known.players | budgets.players)
    atomic_write_text(folder / FILE, json.dumps(to_json(budgets)) + "\n")


def to_json(budgets: Budgets) -> dict[str, Any]:
    """Returns what JSON can hold."""
    players = {
        name: row._asdict() | {"measured": [x._asdict() for x in row.measured]}
        for name, row in budgets.players.items()
    }
    return budgets._asdict() | {"players": players}


def _to_budget(row: dict[str, Any]) -> Budget:
    asked, simulations = (x and tuple(x) for x in (row["asked"], row["simulations"]))
    measured = (Measured(tuple(x["simulations"]), x["seconds"]) for x in row["measured"])
    return Budget(asked, simulations, tuple(measured))


def _keep(candidate: Candidate, budget: Budget) -> Budget:
    if budget.asked != candidate.simulations:
        old, new = (" + ".join(map(str, x or ())) for x in (budget.asked, candidate.simulations))
        raise ValueError(
            f"player {candidate.spec.name!r} had other simulations ({old} → {new}); choose another "
            "name or folder"
        )
    return budget


def _is_scaled(rule: str, candidate: Candidate) -> bool:
    if candidate.simulations is None:
        return False
    return rule == SECONDS or bool(_blocks(candidate, candidate.simulations))


def _blocks(candidate: Candidate, simulations: Simulations) -> int:
    cost = candidate.enter(simulations).cost
    if cost is None or cost.blocks is None:
        raise ValueError(
            f"player {candidate.spec.name!r}: its rollouts have no fixed length, so its cost is "
            "open; give it rollout_length"
        )
    return cost.blocks


def _by_blocks(
    candidate: Candidate, target: float | None, measure: MeasureFn
) -> tuple[Budget, float]:
    del measure
    asked = candidate.simulations
    assert asked is not None
    if target is None:
        return Budget(asked, asked), float(_blocks(candidate, asked))
    found = scale_to_cost(asked, lambda x: _blocks(candidate, x), target)
    return Budget(asked, found), target


def _by_seconds(
    candidate: Candidate, target: float | None, measure: MeasureFn
) -> tuple[Budget, float]:
    asked = candidate.simulations
    assert asked is not None
    if target is None:
        seconds = measure(candidate.enter(asked))
        return Budget(asked, asked, (Measured(asked, seconds),)), seconds
    rows = scale_to_seconds(asked, lambda x: measure(candidate.enter(x)), target)
    return Budget(asked, rows[-1].simulations, rows), target
