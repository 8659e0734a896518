"""Who plays in a tournament: networks with a search, the exact player, uniformly random play."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import games
from dualmctx.matches.arena import Player, PlayerFn, batch_player, reusing_player, search_player
from dualmctx.matches.costs import FREE, MoveCost, move_cost
from dualmctx.models.game_model import make_search_fn
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork


class Host(NamedTuple):
    """A player that runs on the host.

    Attributes:
      choose: `(histories, seeds) -> actions`: from the actions of each game so far and a number in
        [0, 2**31) for each, which is all that its choice may depend on.
    """

    choose: Callable[[list[list[int]], list[int]], list[int]]


@dataclasses.dataclass(frozen=True, eq=False)
class Entrant:
    """A player with a name.

    Attributes:
      name: by which its results are known.
      player: what chooses. Entrants that share it share compiled programs.
      params: what `player` takes as its parameters.
      cost: of a move; `None` where it is not known.
      about: what else is to be told of it, in what JSON can hold.
    """

    name: str
    player: PlayerFn | Player | Host
    params: Params = None
    cost: MoveCost | None = None
    about: dict[str, Any] = dataclasses.field(default_factory=dict)


def engine(
    name: str,
    env: Environment,
    network: PolicyValueNetwork,
    params: Params,
    policy: Policy,
    *,
    about: dict[str, Any] | None = None,
    **options: Any,
) -> Entrant:
    """Makes an entrant of a network and a search.

    Its policy is taken as it is: `for_evaluation()` plays the best move, others may draw theirs.
    With `reuse_capacity` it goes on from its tree of the move before.

    Args:
      name: of the entrant.
      env: a game as `games.make` gives it. Entrants with the same one, equal networks and equal
        policies share compiled programs.
      network: a `dualmctx.models.network.Network`.
      params: its parameters.
      policy: a search variant.
      about: what else is to be told of it.
      **options: those of `make_model`.

    Returns:
      The entrant.
    """
    player = _searching(env, network, policy, tuple(sorted(options.items())))
    keep = options.get("keep_activations", True)
    cost = move_cost(policy, network, keep_activations=keep)
    return Entrant(name, player, params, cost, about or {})


@functools.lru_cache(maxsize=256)
def _searching(
    env: Environment, network: PolicyValueNetwork, policy: Policy, options: tuple
) -> PlayerFn | Player:
    search_fn = make_search_fn(env, network, policy, **dict(options))
    reuse_capacity = policy.traits.reuse_capacity
    return (
        reusing_player(search_fn, reuse_capacity=reuse_capacity)
        if reuse_capacity
        else search_player(search_fn)
    )


def perfect(env: Environment, name: str = "perfect") -> Entrant:
    """Makes the exact player of a small game; see `games.perfect_player`.

    Raises:
      ValueError: when the game cannot be solved, in one line.
    """
    return Entrant(name, _perfect(env), cost=FREE, about={"player": "perfect"})


def uniform_random(name: str = "random") -> Entrant:
    """Makes a player that draws from the legal moves uniformly."""
    return Entrant(name, _random(), cost=FREE, about={"player": "uniformly random"})


# The same one each time, so that programs can be shared.
@functools.lru_cache(maxsize=16)
def _perfect(env: Environment) -> PlayerFn:
    return batch_player(games.perfect_player(env))


@functools.cache
def _random() -> PlayerFn:
    return batch_player(games.random_player())
