"""The arena: batched games between two players, each side in half of them."""

from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from dualmctx.types import Params, SearchFn


class PlayerFn(Protocol):
    """Chooses `[B]` actions in `[B]` game states; the key is consumed."""

    def __call__(self, params: Params, rng_key: chex.PRNGKey, state: Any) -> chex.Array:
        """Chooses `[B]` actions."""
        ...


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


def batch_player(player: Any) -> PlayerFn:
    """Makes a player of an unbatched `(rng_key, state) -> action`, as the ones in `games`."""

    def choose(params: Params, rng_key: chex.PRNGKey, state: Any) -> chex.Array:
        del params
        keys = jax.random.split(rng_key, state.current_player.shape[0])
        return jax.vmap(player)(keys, state)

    return choose


def make_match(env: Any, players: tuple[PlayerFn, PlayerFn], num_games: int) -> MatchFn:
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

    def match(params: Params, rng_key: chex.PRNGKey) -> Score:
        init_key, play_key = jax.random.split(rng_key)
        state = jax.vmap(env.init)(jax.random.split(init_key, num_games))
        moves_first = jnp.arange(num_games) < num_games // 2
        identity = jnp.where(moves_first, state.current_player, 1 - state.current_player)

        def is_over(state: Any) -> chex.Array:
            return state.terminated | state.truncated

        def step(carry: tuple) -> tuple:
            state, result, rng_key = carry
            rng_key, first_key, second_key = jax.random.split(rng_key, 3)
            first = players[0](params, first_key, state)
            second = players[1](params, second_key, state)
            action = jnp.where(state.current_player == identity, first, second)
            # pgx leaves a game that is over as it is and pays nothing for it again.
            state = jax.vmap(env.step)(state, action)
            result += jnp.take_along_axis(state.rewards, identity[:, None], axis=1)[:, 0]
            return state, result, rng_key

        carry = (state, jnp.zeros(num_games), play_key)
        result = jax.lax.while_loop(lambda c: ~jnp.all(is_over(c[0])), step, carry)[1]
        halves = result.reshape(2, -1)
        return Score(
            wins=jnp.sum(halves > 0, axis=1),
            draws=jnp.sum(halves == 0, axis=1),
            losses=jnp.sum(halves < 0, axis=1),
        )

    return match
