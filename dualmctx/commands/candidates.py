"""A player whose simulations may still change: what it was asked to be, ready to enter."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dualmctx.commands.flags import parse_flags
from dualmctx.matches.external_players import openspiel_mcts, perfect_connect_four
from dualmctx.matches.player_spec import OPENSPIEL, OWN, PERFECT, RANDOM, PlayerSpec
from dualmctx.matches.players import Entrant, engine, perfect, uniform_random
from dualmctx.policies import named_options
from dualmctx.policies.budgets import Simulations, split
from dualmctx.runs.folder import to_dict
from dualmctx.runs.saved_network import Trained, digest_of, model_kwargs_of
from dualmctx.runs.saved_policy import build_policy, with_simulations
from dualmctx.types import Environment


class Candidate(NamedTuple):
    """A player whose simulations may still change.

    Attributes:
      spec: as it was asked for.
      simulations: a move, a number for each tree; `None` where it has none.
      enter: makes the entrant, with simulations of this shape.
    """

    spec: PlayerSpec
    simulations: Simulations | None
    enter: Callable[[Simulations | None], Entrant]


def networkless(spec: PlayerSpec, env: Environment, simulations: int) -> Candidate:
    """Makes a player without a network.

    Args:
      spec: as it was asked for.
      env: the game.
      simulations: a move, where it has any and does not say.

    Raises:
      ValueError: when it cannot be as it was asked for, in one line.
    """
    options = dict(spec.options)
    if spec.search == OPENSPIEL:
        uct_c = _uct_c(options)
        [number] = spec.simulations if spec.simulations and len(spec.simulations) == 1 else [None]
        if spec.simulations and number is None:
            raise ValueError("simulations must be one number: it has one tree")
        budget = (number or simulations,)

        def enter(asked: Simulations | None) -> Entrant:
            [number] = asked or budget
            return openspiel_mcts(env, number, name=spec.name, **uct_c)

        enter(budget)
        return Candidate(spec, budget, enter)
    if options or spec.simulations:
        raise ValueError(f"{spec.search} has no options")
    entrant = _make_fixed(spec, env)
    return Candidate(spec, None, lambda asked: entrant)


def _make_fixed(spec: PlayerSpec, env: Environment) -> Entrant:
    if spec.search == RANDOM:
        return uniform_random(spec.name)
    assert spec.search == PERFECT
    if env.id == "connect_four":
        return perfect_connect_four(env, spec.name)
    return perfect(env, spec.name)


def _uct_c(options: dict[str, str]) -> dict[str, float]:
    """Reads the one option of OpenSpiel's search besides its simulations."""
    for name in options:
        if name != "uct_c":
            raise ValueError(f"{OPENSPIEL} has no option {name}; it has simulations, uct_c")
    if not options:
        return {}
    value = options["uct_c"]
    try:
        uct_c = float(value)
    except ValueError:
        uct_c = math.nan
    if not 0 <= uct_c < math.inf:
        raise ValueError(f"uct_c is {value}; it must be a finite number of at least 0")
    return {"uct_c": uct_c}


def searching(spec: PlayerSpec, trained: Trained, simulations: int) -> Candidate:
    """Makes a player that searches with a network.

    Args:
      spec: as it was asked for.
      trained: the network.
      simulations: a move, of all trees, where it does not say; `own` keeps those of its training.

    Raises:
      ValueError: when it cannot be as it was asked for, in one line.
    """
    is_own = spec.search == OWN
    policy = build_policy(trained.record, None if is_own else spec.search).for_evaluation()
    budget = _budget_of(policy)
    if spec.simulations is not None and len(spec.simulations) > 1:
        budget = spec.simulations
    elif spec.simulations is not None or not is_own:
        [total] = spec.simulations or [simulations]
        budget = split(total, budget)
    policy = _with_options(spec, with_simulations(policy, budget))
    network = {"network": digest_of(trained.params), "iteration": trained.iteration}

    def enter(asked: Simulations | None) -> Entrant:
        chosen = policy if asked in (None, budget) else with_simulations(policy, asked)
        about = network | {"search": {"policy": type(policy).__name__} | to_dict(chosen)}
        options = model_kwargs_of(trained.record)
        parts = (trained.env, trained.network, trained.params, chosen)
        return engine(spec.name, *parts, about=about, **options)

    enter(budget)
    return Candidate(spec, budget, enter)


def _budget_of(policy: Any) -> Simulations:
    budget = policy.num_simulations
    return budget if isinstance(budget, tuple) else (budget,)


def _with_options(spec: PlayerSpec, policy: Any) -> Any:
    """Returns a policy with the options of a player's text, by their short names."""
    flags: list[str] = []
    known = _flags_of(policy)
    for name, value in spec.options:
        if name not in known:
            raise ValueError(
                f"{spec.search} has no option {name}; it has simulations, {', '.join(known)}"
            )
        flags += [known[name], *("None" if x == "none" else x for x in value.split(","))]
    return parse_flags(policy, flags, spec.search, "")


def _flags_of(policy: Any) -> dict[str, str]:
    """Returns the flag of each option of a policy by its short name, except the simulations."""
    return {
        name: "--" + ".".join(option.path).replace("_", "-")
        for name, option in named_options(policy).items()
        if name != "num_simulations" and not callable(option.value)
    }
