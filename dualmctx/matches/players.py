"""Players of matches: functions that choose moves, and networks with or without a search."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

import games
from dualmctx.checks import check
from dualmctx.models.costs import FREE, MoveCost, move_cost
from dualmctx.models.game_model import mask_illegal
from dualmctx.models.search_fn import make_search_fn
from dualmctx.policies.root import legal_probabilities, sample_action
from dualmctx.search.keys import element_keys
from dualmctx.search.subtree import empty_tree, get_subtree
from dualmctx.search.tree import is_finite
from dualmctx.types import (
    Environment,
    Failure,
    GameState,
    Params,
    Policy,
    PolicyValueNetwork,
    SearchFn,
)


class MoveFn(Protocol):
    """Chooses `[B]` actions in `[B]` game states, with `[B]` keys, which are consumed.

    An action is -1 if the output of the player's network is not finite. The game then ends, and
    the player loses it.
    """

    def __call__(self, params: Params, rng_key: chex.PRNGKey, state: GameState) -> chex.Array:
        """Chooses `[B]` actions."""
        ...


class Mover(NamedTuple):
    """A move function with a memory per game, any pytree of `[B, ...]` arrays.

    Attributes:
      start: `(params, state) -> memory`, called before the first move of the `[B]` games.
      choose: `(params, rng_key, state, memory) -> (action, memory)`, called on the player's turn
        with `[B]` keys, which are consumed; returns the memory after the action.
      observe: `(memory, action) -> memory`, called after `[B]` actions of the opponent.
    """

    start: Callable[[Params, GameState], Any]
    choose: Callable[[Params, chex.PRNGKey, GameState, Any], tuple[chex.Array, Any]]
    observe: Callable[[Any, chex.Array], Any]


def search_move_fn(search_fn: SearchFn) -> MoveFn:
    """Returns a function that plays the action selected by a search."""
    return lambda params, rng_key, state: _get_action(search_fn(params, rng_key, state))


def _get_action(output: Any) -> chex.Array:
    return jnp.where(is_finite(output.search_tree), output.action, -1)


def tree_reusing_mover(search_fn: SearchFn, *, reuse_capacity: int) -> Mover:
    """Returns a mover that plays the action of a search and reuses the tree for its next move.

    After each move of either player, the tree is reduced to the subtree below that move. It grows
    only on the turns of the player that owns it.

    Args:
      search_fn: a policy with `reuse_capacity`, bound to a game and a network.
      reuse_capacity: the `reuse_capacity` of the policy, at least 1.

    Returns:
      The mover; its memory is the next `search_tree`.
    """

    def start(params: Params, state: GameState) -> Any:
        return empty_tree(search_fn, params, state, reuse_capacity=reuse_capacity)

    def choose(params: Params, rng_key: chex.PRNGKey, state: GameState, search_tree: Any) -> tuple:
        output = search_fn(params, rng_key, state, search_tree)
        action = _get_action(output)
        return action, get_subtree(output.search_tree, action, reuse_capacity=reuse_capacity)

    def observe(search_tree: Any, action: chex.Array) -> Any:
        return get_subtree(search_tree, action, reuse_capacity=reuse_capacity)

    return Mover(start, choose, observe)


def as_mover(mover: MoveFn | Mover) -> Mover:
    """Returns a mover without a memory for a move function; returns a mover unchanged."""
    if isinstance(mover, Mover):
        return mover
    return Mover(
        start=lambda params, state: None,
        choose=lambda params, rng_key, state, memory: (mover(params, rng_key, state), None),
        observe=lambda memory, action: None,
    )


@functools.lru_cache(maxsize=64)
def jit_choose(mover: MoveFn | Mover) -> Callable[..., tuple[chex.Array, Any]]:
    """Returns `Mover.choose` of a mover as a compiled function.

    The games, the times of moves and the evals of a player share one program for each batch size.
    """
    return jax.jit(as_mover(mover).choose)


def batched_move_fn(
    choose_one: Callable[[chex.PRNGKey, GameState], chex.Array],
) -> MoveFn:
    """Returns the batched form of an unbatched `(rng_key, state) -> action`, as in `games`."""

    def choose(params: Params, rng_key: chex.PRNGKey, state: GameState) -> chex.Array:
        del params
        keys = element_keys(rng_key, state.current_player.shape[0])
        return jax.vmap(choose_one)(keys, state)

    return choose


ChooseFn = Callable[[list[list[Any]], list[int]], list[int | Failure]]
"""`(histories, seeds) -> actions`: takes, for each game, the actions so far and a seed in
[0, 2**31). It may give a failure in place of an action, which ends that game."""


class HostMover(NamedTuple):
    """Chooses the moves of a player on the host.

    Attributes:
      choose: chooses the actions, which may depend on nothing but the arguments.
      begin: called before each batch of games.
      close: called after the last game; ends the programs of the player.
      takes_fen: whether games may begin with a FEN, which is then the first entry of a history.
    """

    choose: ChooseFn
    begin: Callable[[], None] = lambda: None
    close: Callable[[], None] = lambda: None
    takes_fen: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Player:
    """A named player.

    Attributes:
      name: name of the player in results.
      mover: chooses the moves. Players with the same mover share compiled programs.
      params: parameters that are passed to `mover`.
      cost: cost of a move; `None` if it is not known.
      about: additional description, as JSON values.
    """

    name: str
    mover: MoveFn | Mover | HostMover
    params: Params = None
    cost: MoveCost | None = None
    about: dict[str, Any] = dataclasses.field(default_factory=dict)


def search_player(
    name: str,
    env: Environment,
    network: PolicyValueNetwork,
    params: Params,
    policy: Policy,
    *,
    about: dict[str, Any] | None = None,
    **options: Any,
) -> Player:
    """Builds a player from a network and a search.

    The policy is used as given: `for_evaluation()` plays the best move, other policies may sample
    their moves. With `reuse_capacity` the player reuses the tree of its previous move. Players with
    the same environment, equal networks and equal policies share compiled programs.

    Args:
      name: name of the player.
      env: a game of `games.make`.
      network: a `dualmctx.models.network.Network`.
      params: parameters of the network.
      policy: a search variant.
      about: additional description, as JSON values.
      **options: options of `make_model`.
    """
    mover = _search_mover(env, network, policy, tuple(sorted(options.items())))
    keep = options.get("keep_activations", True)
    cost = move_cost(policy, network, keep_activations=keep)
    return Player(name, mover, params, cost, about or {})


@functools.lru_cache(maxsize=256)
def _search_mover(
    env: Environment, network: PolicyValueNetwork, policy: Policy, options: tuple
) -> MoveFn | Mover:
    search_fn = make_search_fn(env, network, policy, **dict(options))
    if capacity := policy.traits.reuse_capacity:
        return tree_reusing_mover(search_fn, reuse_capacity=capacity)
    return search_move_fn(search_fn)


def policy_player(
    name: str,
    network: PolicyValueNetwork,
    params: Params,
    *,
    head: int = -1,
    temperature: float = 0.0,
    about: dict[str, Any] | None = None,
) -> Player:
    """Builds a player that follows the policy of a network, without a search.

    Its cost is one evaluation of the network and no simulations. Equal networks share compiled
    programs.

    Args:
      name: name of the player.
      network: a `dualmctx.models.network.Network`.
      params: parameters of the network.
      head: index of the head whose policy plays, from 0; -1 is the last one.
      temperature: 0 plays the most probable legal move; otherwise a move is sampled from
        probabilities^(1 / temperature) over the legal moves.
      about: additional description, as JSON values.

    Raises:
      ValueError: if the network has no such head, or the temperature is negative or not finite.
    """
    number = len(network.head_depths)
    check(-number <= head < number, "head", head, f"from {-number} to {number - 1}")
    check(0 <= temperature < math.inf, "temperature", temperature, "finite and at least 0")
    mover = _policy_move_fn(network, head % number, temperature)
    return Player(name, mover, params, MoveCost(0, 1, network.head_depths[head]), about or {})


@functools.lru_cache(maxsize=256)
def _policy_move_fn(network: PolicyValueNetwork, head: int, temperature: float) -> MoveFn:
    def logits_fn(params: Params, observation: chex.Array) -> chex.Array:
        return network.apply(params, observation, head, method="begin")[1].logits

    return policy_move_fn(logits_fn, temperature)


def policy_move_fn(
    logits_fn: Callable[[Params, chex.Array], chex.Array], temperature: float
) -> MoveFn:
    """Returns a function that plays moves of a policy.

    Args:
      logits_fn: `(params, observation) -> logits`, `[B, A]` without a mask.
      temperature: 0 for the most probable legal move, ties going to the lowest action; otherwise a
        move is sampled from probabilities^(1 / temperature).
    """

    def choose(params: Params, rng_key: chex.PRNGKey, state: GameState) -> chex.Array:
        logits = logits_fn(params, state.observation)
        probabilities = legal_probabilities(mask_illegal(logits, state.legal_action_mask))
        action = sample_action(rng_key, probabilities, temperature)
        return jnp.where(jnp.isfinite(logits).all(axis=-1), action, -1)

    return choose


def perfect_player(env: Environment, name: str = "perfect") -> Player:
    """Builds the perfect player of a small game; see `games.perfect_player`.

    Raises:
      ValueError: if the game cannot be solved.
    """
    return Player(name, _perfect_move_fn(env), cost=FREE, about={"player": "perfect"})


def random_player(name: str = "random") -> Player:
    """Builds a player that samples uniformly from the legal actions."""
    return Player(name, _random_move_fn(), cost=FREE, about={"player": "uniformly random"})


# Cached, so that players share compiled programs.
@functools.lru_cache(maxsize=16)
def _perfect_move_fn(env: Environment) -> MoveFn:
    return batched_move_fn(games.perfect_player(env))


@functools.cache
def _random_move_fn() -> MoveFn:
    return batched_move_fn(games.random_player())


def host_mover(choose_one: Callable[[list[Any], int], int | Failure]) -> HostMover:
    """Returns a host mover that calls `(history, seed) -> action` for each game."""
    return HostMover(lambda histories, seeds: [*map(choose_one, histories, seeds)])
