"""Builders of players: functions from a number of simulations to a player."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from dualmctx.checks import MAX_NUMBER
from dualmctx.commands.search_spec import read_options, set_options
from dualmctx.errors import UserError
from dualmctx.matches.external_players import openspiel_mcts, perfect_connect_four
from dualmctx.matches.player_spec import OPENSPIEL, OWN, PERFECT, POLICY, RANDOM, PlayerSpec
from dualmctx.matches.players import (
    Player,
    perfect_player,
    policy_player,
    random_player,
    search_player,
)
from dualmctx.policies.budgets import Simulations, split, tree_budgets
from dualmctx.runs.saved_network import Trained, identity_of, model_kwargs_of
from dualmctx.runs.saved_policy import build_policy, search_record, with_simulations
from dualmctx.types import Environment

_POLICY_OPTIONS: dict[str, Any] = {"head": int, "temperature": float}
_UCT_C = Meta(ge=0, le=MAX_NUMBER, description="a finite number of at least 0")
_OPENSPIEL_OPTIONS: dict[str, Any] = {"uct_c": Annotated[float, _UCT_C]}


class PlayerBuilder(NamedTuple):
    """Builds a player with any number of simulations.

    Attributes:
      spec: the specification of the player.
      simulations: default simulations per move, one number per tree; `None` if it has none.
      build: builds the player with the given simulations, one number per tree.
    """

    spec: PlayerSpec
    simulations: Simulations | None
    build: Callable[[Simulations | None], Player]


def networkless_builder(spec: PlayerSpec, env: Environment, simulations: int) -> PlayerBuilder:
    """Returns the builder of a player without a network.

    Args:
      spec: the specification of the player.
      env: the game.
      simulations: default simulations per move of OpenSpiel's MCTS.

    Raises:
      ValueError: if the specification is invalid.
    """
    options = dict(spec.options)
    if spec.search == OPENSPIEL:
        uct_c = read_options(OPENSPIEL, spec.options, _OPENSPIEL_OPTIONS, "simulations")
        [number] = spec.simulations if spec.simulations and len(spec.simulations) == 1 else [None]
        if spec.simulations and number is None:
            raise UserError("simulations must be one number, because the search has one tree")
        budget = (number or simulations,)

        def build(requested: Simulations | None) -> Player:
            [number] = requested or budget
            return openspiel_mcts(env, number, name=spec.name, **uct_c)

        build(budget)
        return PlayerBuilder(spec, budget, build)
    if options or spec.simulations:
        raise UserError(f"{spec.search} has no options")
    player = _build_fixed_player(spec, env)
    return PlayerBuilder(spec, None, lambda requested: player)


def _build_fixed_player(spec: PlayerSpec, env: Environment) -> Player:
    if spec.search == RANDOM:
        return random_player(spec.name)
    assert spec.search == PERFECT
    if env.id == "connect_four":
        return perfect_connect_four(env, spec.name)
    return perfect_player(env, spec.name)


def policy_builder(spec: PlayerSpec, trained: Trained) -> PlayerBuilder:
    """Returns the builder of a player that follows the policy of a network without a search.

    Args:
      spec: the specification of the player; its options are `head` and `temperature`.
      trained: the network.

    Raises:
      ValueError: if the specification is invalid.
    """
    if spec.simulations:
        raise UserError(f"{POLICY} does not search, so it has no simulations; leave them out")
    options = read_options(POLICY, spec.options, _POLICY_OPTIONS)
    about = identity_of(trained) | {"policy": {"head": -1, "temperature": 0.0} | options}
    player = policy_player(spec.name, trained.network, trained.params, about=about, **options)
    return PlayerBuilder(spec, None, lambda requested: player)


def search_builder(spec: PlayerSpec, trained: Trained, simulations: int) -> PlayerBuilder:
    """Returns the builder of a player that searches with a network.

    Args:
      spec: the specification of the player.
      trained: the network.
      simulations: default simulations per move, over all trees; `own` keeps those of its training.

    Raises:
      ValueError: if the specification is invalid.
    """
    is_own = spec.search == OWN
    policy = build_policy(trained.record, None if is_own else spec.search).for_evaluation()
    budget = tree_budgets(policy)
    if spec.simulations is not None and len(spec.simulations) > 1:
        budget = spec.simulations
    elif spec.simulations is not None or not is_own:
        [total] = spec.simulations or [simulations]
        budget = split(total, budget)
    policy = set_options(with_simulations(policy, budget), spec.search, spec.options)
    network = identity_of(trained)

    def build(requested: Simulations | None) -> Player:
        chosen = policy if requested in (None, budget) else with_simulations(policy, requested)
        about = network | {"search": search_record(chosen)}
        options = model_kwargs_of(trained.record)
        parts = (trained.env, trained.network, trained.params, chosen)
        return search_player(spec.name, *parts, about=about, **options)

    build(budget)
    return PlayerBuilder(spec, budget, build)
