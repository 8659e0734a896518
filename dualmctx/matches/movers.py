"""Movers: functions that choose the moves of a player on the device."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.search.keys import element_keys
from dualmctx.search.subtree import empty_tree, get_subtree
from dualmctx.search.tree import is_finite
from dualmctx.types import GameState, Params, SearchFn


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


def _get_action(output: mctx.PolicyOutput) -> chex.Array:
    """Returns the `[B]` actions of a search, -1 if the output of the network is not finite."""
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

    The result is cached, so the games, the times of moves and the evals of a player share one
    compiled program for each batch size.
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
