"""Who plays: from players as they were asked for to entrants of a tournament."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import games
from dualmctx.cli import parse_flags
from dualmctx.matches.entrants import Entrant, engine, perfect, uniform_random
from dualmctx.matches.equal_costs import Simulations, split
from dualmctx.matches.hosts import openspiel_mcts, perfect_connect_four
from dualmctx.matches.player_spec import NETWORKLESS, OPENSPIEL, OWN, PERFECT, RANDOM, PlayerSpec
from dualmctx.runs import to_dict
from dualmctx.trained import (
    Trained,
    digest_of,
    load_trained,
    model_options_of,
    policy_of,
    with_simulations,
)


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


class Lineup(NamedTuple):
    """The players and the game that they play.

    Attributes:
      env: the game.
      game_parameters: its parameters.
      candidates: the players.
      trained: the first network, of a player or the default one; `None` where there is none.
    """

    env: Any
    game_parameters: dict[str, Any]
    candidates: tuple[Candidate, ...]
    trained: Trained | None


def load_lineup(
    specs: Sequence[PlayerSpec],
    checkpoint: str | None,
    game: str | None,
    game_parameters: dict[str, int],
    simulations: int,
) -> Lineup:
    """Loads the players.

    Args:
      specs: the players.
      checkpoint: of those that name none.
      game: that all networks must be of; `None` for whatever they are of.
      game_parameters: of the game where nobody has a network.
      simulations: a move, of all trees, of those that do not say.

    Raises:
      ValueError: when something is wrong, in one line.
    """
    for spec in specs:
        if spec.search not in (*NETWORKLESS, OWN):
            with _about(spec):
                _check_variant(spec)
    loaded = [_load(spec, checkpoint) for spec in specs]
    first = next((trained for trained in loaded if trained is not None), None)
    if first is None and checkpoint is not None:
        first = load_trained(checkpoint)
    if first is not None:
        env, parameters = first.env, first.record["game_parameters"]
        _check_game(specs, loaded, env.id, parameters, game)
        # One game for all, so that equal searches share compiled programs.
        loaded = [trained and trained._replace(env=env) for trained in loaded]
    elif game is None:
        raise ValueError("nobody has a network; say with --game what is to be played")
    else:
        env, parameters = games.make(game, **game_parameters), game_parameters
    candidates = []
    for spec, trained in zip(specs, loaded, strict=True):
        with _about(spec):
            made = _networkless if trained is None else _searching
            candidates.append(made(spec, trained or env, simulations))
    return Lineup(env, parameters, tuple(candidates), first)


@contextlib.contextmanager
def _about(spec: PlayerSpec) -> Iterator[None]:
    """Says of which player an error is."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"player {spec.name!r}: {error}") from None


def _check_variant(spec: PlayerSpec) -> None:
    try:
        policy_of({}, spec.search)
    except ValueError as error:
        others = ", ".join((OWN, *NETWORKLESS))
        raise ValueError(
            str(error).replace("variant is", "its search is") + f", {others}"
        ) from None


def _load(spec: PlayerSpec, checkpoint: str | None) -> Trained | None:
    if spec.search in NETWORKLESS:
        return None
    source = spec.checkpoint or checkpoint
    if source is None:
        raise ValueError(
            f"player {spec.name!r} names no checkpoint; write CHECKPOINT+{spec.search}, or give "
            "--checkpoint for all that name none"
        )
    return load_trained(source, spec.iteration)


def _check_game(
    specs: Sequence[PlayerSpec],
    loaded: Sequence[Trained | None],
    game_id: str,
    parameters: dict[str, Any],
    game: str | None,
) -> None:
    if game is not None and game.replace("-", "_") != game_id:
        raise ValueError(f"game is {game}; the networks play {game_id}")
    for spec, trained in zip(specs, loaded, strict=True):
        if trained is not None:
            found = trained.env.id, trained.record["game_parameters"]
            if found != (game_id, parameters):
                theirs, ours = (
                    f"{x} {y}".replace(" {}", "") for x, y in (found, (game_id, parameters))
                )
                raise ValueError(f"player {spec.name!r} plays {theirs}, the first one {ours}")


def _networkless(spec: PlayerSpec, env: Any, simulations: int) -> Candidate:
    options = dict(spec.options)
    if spec.search == OPENSPIEL:
        uct_c = _number(options)
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


def _make_fixed(spec: PlayerSpec, env: Any) -> Entrant:
    if spec.search == RANDOM:
        return uniform_random(spec.name)
    assert spec.search == PERFECT
    if env.id == "connect_four":
        return perfect_connect_four(env, spec.name)
    return perfect(env, spec.name)


def _number(options: dict[str, str]) -> dict[str, float]:
    for name, value in options.items():
        if name != "uct_c":
            raise ValueError(f"{OPENSPIEL} has no option {name}; it has simulations, uct_c")
        try:
            return {name: float(value)}
        except ValueError:
            raise ValueError(f"uct_c is {value}; it must be a number") from None
    return {}


def _searching(spec: PlayerSpec, trained: Trained, simulations: int) -> Candidate:
    is_own = spec.search == OWN
    policy = policy_of(trained.record, None if is_own else spec.search).noiseless()
    budget = _budget_of(policy)
    if spec.simulations is not None and len(spec.simulations) > 1:
        budget = spec.simulations
    elif spec.simulations is not None or not is_own:
        [total] = spec.simulations or [simulations]
        budget = split(total, budget)
    policy = _with_options(spec, with_simulations(policy, budget))
    network = {"network": digest_of(trained.params), "iteration": trained.iteration}

    def enter(asked: Simulations | None) -> Entrant:
        searching = policy if asked in (None, budget) else with_simulations(policy, asked)
        about = network | {"search": {"policy": type(policy).__name__} | to_dict(searching)}
        options = model_options_of(trained.record)
        parts = (trained.env, trained.network, trained.params, searching)
        return engine(spec.name, *parts, about=about, **options)

    enter(budget)
    return Candidate(spec, budget, enter)


def _budget_of(policy: Any) -> Simulations:
    budget = policy.num_simulations
    return budget if isinstance(budget, tuple) else (budget,)


def _with_options(spec: PlayerSpec, policy: Any) -> Any:
    """Changes options of a policy, or of its `puct`, to what was written."""
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
    """Names the flags of a policy's options; those of `puct` without the prefix."""
    found: dict[str, str] = {}
    for field in dataclasses.fields(policy):
        value, flag = getattr(policy, field.name), "--" + field.name.replace("_", "-")
        if dataclasses.is_dataclass(value):
            found |= {x: f"{flag}.{y.removeprefix('--')}" for x, y in _flags_of(value).items()}
        elif field.name != "num_simulations" and not callable(value):
            found[field.name] = flag
    return found
