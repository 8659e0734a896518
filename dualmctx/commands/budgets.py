"""The budget rules of `dualmctx compare`, which scale the simulations of each player."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

import msgspec

from dualmctx.commands.load_players import PlayerBuilder
from dualmctx.errors import UserError
from dualmctx.matches.players import Player
from dualmctx.matches.usage import NETWORK, SECONDS, Budget, Budgets
from dualmctx.models.costs import Measured, Simulations, scale_to_cost, scale_to_seconds
from dualmctx.runs.folder import CONFIG, read_config
from dualmctx.typed_values import decode

MeasureFn = Callable[[Player], float]
"""Measures the seconds per move of a player."""


def set_budgets(
    rule: str,
    builders: Sequence[PlayerBuilder],
    measure: MeasureFn,
    saved: Mapping[str, Budget] | None = None,
) -> Budgets:
    """Scales the simulations of all players to the cost of the first player that has one.

    Args:
      rule: see `Budgets`. `simulations` does not scale; `network` does not scale players without a
        network, `seconds` does not scale players without simulations.
      builders: the players.
      measure: measures seconds per move, for the rule `seconds`.
      saved: budgets of an earlier session, by name, that of its reference first. They are kept.

    Raises:
      ValueError: if the cost of a player is not fixed, or a player had other simulations.
    """
    saved, budgets = saved or {}, {}
    reference, target = next(((name, x.target) for name, x in saved.items()), (None, None))
    for builder in builders:
        name, asked = builder.spec.name, builder.simulations
        if name in saved:
            if saved[name].asked != asked:
                raise UserError(
                    f"{name} has {asked} simulations, and {saved[name].asked} in the saved games; "
                    "choose another name, or another folder"
                )
            budgets[name] = saved[name]
        elif asked is None or not _is_scaled(rule, builder, asked):
            budgets[name] = Budget(asked, asked)
        else:
            budgets[name] = _scale(rule, builder, asked, target, measure)
            if target is None:
                reference, target = name, budgets[name].target
    return Budgets(rule, reference, target, budgets)


def build_player(budgets: Budgets, builder: PlayerBuilder) -> Player:
    """Builds a player; a budget that was scaled is part of its description."""
    budget = budgets.players[builder.spec.name]
    player = builder.build(budget.simulations)
    if budget.target is None:
        return player
    about = player.about | {"budget": msgspec.to_builtins(budget)}
    return dataclasses.replace(player, about=about)


class _About(TypedDict):
    budget: NotRequired[Budget]


class _Player(TypedDict):
    about: _About


def read_budgets(folder: Path) -> dict[str, Budget]:
    """Reads the scaled budgets in the settings of a comparison, by name of the player."""
    players = read_config(folder).get("players")
    rows = decode(f"{folder / CONFIG}: players", players, dict[str, _Player])
    return {name: x["about"]["budget"] for name, x in rows.items() if "budget" in x["about"]}


def _is_scaled(rule: str, builder: PlayerBuilder, asked: Simulations) -> bool:
    return rule == SECONDS or (rule == NETWORK and _count_blocks(builder, asked) > 0)


def _count_blocks(builder: PlayerBuilder, simulations: Simulations) -> int:
    cost = builder.build(simulations).cost
    if cost is None or cost.blocks is None:
        raise UserError(
            f"player {builder.spec.name!r}: its rollouts have no fixed length, so its cost is not "
            "fixed; set rollout_length"
        )
    return cost.blocks


def _scale(
    rule: str,
    builder: PlayerBuilder,
    asked: Simulations,
    target: float | None,
    measure: MeasureFn,
) -> Budget:
    """Scales the simulations of a player to a cost; without one, its own cost is the target."""
    if rule == NETWORK:
        if target is None:
            return Budget(asked, asked, float(_count_blocks(builder, asked)))
        scaled = scale_to_cost(asked, lambda x: _count_blocks(builder, x), target)
        return Budget(asked, scaled, target)
    if target is None:
        seconds = measure(builder.build(asked))
        return Budget(asked, asked, seconds, (Measured(asked, seconds),))
    rows = scale_to_seconds(asked, lambda x: measure(builder.build(x)), target)
    return Budget(asked, rows[-1].simulations, target, rows)
