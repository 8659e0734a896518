"""The arena: batched games between two players, each side in half of them."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from dualmctx.arrays import pick
from dualmctx.reuse import advance, no_tree
from dualmctx.types import Params, SearchFn


class PlayerFn(Protocol):
    """Chooses `[B]` actions in `[B]` game states; the key is consumed."""

    def __call__(self, params: Params, rng_key: chex.PRNGKey, state: Any) -> chex.Array:
        """Chooses `[B]` actions."""
        ...


class Player(NamedTuple):
    """A player that remembers something of its game, in any pytree of `[B, ...]` arrays.

    Attributes:
      start: `(params, state) -> memory` before the first move of the `[B]` games.
      choose: `(params, rng_key, state, memory) -> (action, thought)`; the key is consumed. It is
        asked at every move of the match and heard only where it is its turn.
      observe: `(memory, thought, action, is_own) -> memory` after a move: `[B]` int32 actions
        played, `[B]` bool whether they are the player's own.
    """

    start: Callable[[Params, Any], Any]
    choose: Callable[[Params, chex.PRNGKey, Any, Any], tuple[chex.Array, Any]]
    observe: Callable[[Any, Any, chex.Array, chex.Array], Any]


class Score(NamedTuple):
    """Results of the first player, counted in games; `[2]` each: moving first, moving second."""

    wins: chex.Array
    draws: chex.Array
    losses: chex.Array


class MatchFn(Protocol):
    """Plays a match; see `make_match`."""

    def __call__(self, params: Params, rng_key: chex.PRNGKey) -> Score:
        """Plays all games; consumes the key."""
        ...


def search_player(search_fn: SearchFn) -> PlayerFn:
    """Makes a player that plays the action of a search."""
    return lambda params, rng_key, state: search_fn(params, rng_key, state).action


def reusing_player(search_fn: SearchFn, *, kept_nodes: int) -> Player:
    """Makes a player that plays the action of a search and goes on from that search's tree.

    The tree follows the game: below the player's own move, then below the opponent's. It grows
    at the player's own turns only.

    Args:
      search_fn: a policy with `kept_nodes`, bound to a game and a network.
      kept_nodes: that option, at least 1.

    Returns:
      The player; its memory is the kept trees.
    """

    def start(params: Params, state: Any) -> Any:
        return no_tree(search_fn, params, state, max_kept=kept_nodes)

    def choose(params: Params, rng_key: chex.PRNGKey, state: Any, kept: Any) -> tuple:
        output = search_fn(params, rng_key, state, kept)
        return output.action, output.search_tree

    def observe(kept: Any, tree: Any, action: chex.Array, is_own: chex.Array) -> Any:
        own, other = (advance(x, action, max_kept=kept_nodes) for x in (tree, kept))
        return pick(is_own, own, other)

    return Player(start, choose, observe)


def forgetful(player: PlayerFn) -> Player:
    """Makes a player with a memory of nothing."""
    return Player(
        start=lambda params, state: None,
        choose=lambda params, rng_key, state, memory: (player(params, rng_key, state), None),
        observe=lambda memory, thought, action, is_own: None,
    )


def batch_player(player: Any) -> PlayerFn:
    """Makes a player of an unbatched `(rng_key, state) -> action`, as the ones in `games`."""

    def choose(params: Params, rng_key: chex.PRNGKey, state: Any) -> chex.Array:
        del params
        keys = jax.random.split(rng_key, state.current_player.shape[0])
        return jax.vmap(player)(keys, state)

    return choose


def make_match(
    env: Any, players: tuple[PlayerFn | Player, PlayerFn | Player], num_games: int
) -> MatchFn:
    """Makes a match of two players on one game, all games side by side.

    The first player moves first in the first half of the games. Which player has which identity
    in pgx's `current_player` is drawn anew in each game, as pgx does.

    Args:
      env: a game as `games.make` gives it.
      players: the two players; both get the same `params`.
      num_games: an even number, at least 2.

    Returns:
      `(params, rng_key) -> Score`, to be jitted; the key is consumed.

    Raises:
      ValueError: when the number of games is not even, in one line.
    """
    if num_games < 2 or num_games % 2:
        raise ValueError(f"num_games is {num_games}; it must be even and at least 2")

    one, other = (x if isinstance(x, Player) else forgetful(x) for x in players)

    def match(params: Params, rng_key: chex.PRNGKey) -> Score:
        init_key, play_key = jax.random.split(rng_key)
        state = jax.vmap(env.init)(jax.random.split(init_key, num_games))
        moves_first = jnp.arange(num_games) < num_games // 2
        identity = jnp.where(moves_first, state.current_player, 1 - state.current_player)

        def is_over(state: Any) -> chex.Array:
            return state.terminated | state.truncated

        def step(carry: tuple) -> tuple:
            state, result, memories, rng_key = carry
            rng_key, first_key, second_key = jax.random.split(rng_key, 3)
            first, thought = one.choose(params, first_key, state, memories[0])
            second, other_thought = other.choose(params, second_key, state, memories[1])
            is_first = state.current_player == identity
            action = jnp.where(is_first, first, second)
            memories = (
                one.observe(memories[0], thought, action, is_first),
                other.observe(memories[1], other_thought, action, ~is_first),
            )
            # pgx leaves a game that is over as it is and pays nothing for it again.
            state = jax.vmap(env.step)(state, action)
            result += jnp.take_along_axis(state.rewards, identity[:, None], axis=1)[:, 0]
            return state, result, memories, rng_key

        memories = (one.start(params, state), other.start(params, state))
        carry = (state, jnp.zeros(num_games), memories, play_key)
        result = jax.lax.while_loop(lambda c: ~jnp.all(is_over(c[0])), step, carry)[1]
        halves = result.reshape(2, -1)
        return Score(
            wins=jnp.sum(halves > 0, axis=1),
            draws=jnp.sum(halves == 0, axis=1),
            losses=jnp.sum(halves < 0, axis=1),
        )

    return match
