"""The openings of the match of the player stage."""

from collections.abc import Sequence
from typing import NamedTuple

import jax

from dualmctx.errors import UserError
from dualmctx.matches.openings import (
    Opening,
    accept_any,
    accept_balanced,
    find_openings,
)
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.options import PlayerOptions
from dualmctx.pipeline.parts import predict_value
from dualmctx.types import Environment, Params


class Openings(NamedTuple):
    """The openings of the match.

    Attributes:
      openings: the actions of each opening.
      rule: how they were chosen: `balanced` or `random`.
      note: a message about another rule or number than the options ask for; empty if there is none.
    """

    openings: list[Opening]
    rule: str
    note: str


def choose_openings(
    env: Environment, network: SeparateTrunks, params: Params, options: PlayerOptions, seed: int
) -> Openings:
    """Chooses different openings, half as many as games per pair of players.

    Raises:
      ValueError: if there is no opening of the given lengths.
    """
    number, plies = options.num_games // 2, options.opening_plies
    found, notes = [], []
    if options.openings == "balanced":
        values = jax.jit(lambda x: predict_value(network, params, x))
        accept = accept_balanced(env, lambda states: values(states.observation))
        found = find_openings(env, number, plies=plies, seed=seed, accept=accept)
        if len(found) == number:
            return Openings(found, "balanced", "")
        notes.append(f"there are only {len(found)} balanced openings, so random ones are played")
    found = find_openings(env, number, plies=plies, seed=seed, accept=accept_any)
    require_openings(found, env, plies)
    if len(found) < number:
        notes.append(
            f"there are only {len(found)} openings, so each pair of players plays "
            f"{2 * len(found)} games"
        )
    return Openings(found, "random", "; ".join(notes))


def require_openings(found: Sequence[Opening], env: Environment, plies: Sequence[int]) -> None:
    """Checks that there is an opening of the given lengths.

    Raises:
      ValueError: if none was found.
    """
    if not found:
        listed = " ".join(map(str, plies))
        raise UserError(
            f"player.opening_plies is {listed}; every game of {env.id} is over after as many "
            "random moves: choose fewer plies"
        )
