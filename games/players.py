"""Players to measure against, and states rebuilt from move histories."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from games import solvers

if TYPE_CHECKING:
    import pgx

Player = Callable[[jax.Array, Any], jax.Array]


def random_player() -> Player:
    """Returns a player that draws from the legal moves uniformly.

    The player is a pure function `(rng_key, state) -> action`, for an unbatched pgx state;
    it consumes the key and returns int32 `[]`. Use `jax.vmap` for batches.
    """

    def act(rng_key: jax.Array, state: Any) -> jax.Array:
        return _uniform(rng_key, state.legal_action_mask)

    return act


def perfect_player(env: pgx.Env) -> Player:
    """Returns a player that draws from the optimal moves uniformly.

    Args:
      env: a game that `games.solve` can solve.

    Returns:
      A pure function `(rng_key, state) -> action`, for an unbatched pgx state of `env`; it
      consumes the key and returns int32 `[]`. In a finished game it plays anything.

    Raises:
      ValueError: as `games.solve`.
    """
    solution = solvers.solve(env)

    def act(rng_key: jax.Array, state: Any) -> jax.Array:
        optimal = jnp.asarray(solution.code_optimal)[solution.code_fn(state)]
        return _uniform(rng_key, jnp.where(optimal.any(), optimal, state.legal_action_mask))

    return act


def replay(env: pgx.Env, histories: Any, key: jax.Array | None = None) -> Any:
    """Plays many histories at once, each from the start of a game.

    Args:
      env: any pgx environment.
      histories: `[S, D]` int32 actions; a history ends at its first -1. Actions must be legal:
        as everywhere in pgx, an illegal one ends the game with a penalty.
      key: consumed to start the games (it decides which player moves first); a fixed one if
        None.

    Returns:
      `[S]` states after the last action of each history. Compiled once for each environment
      object and shape.

    Raises:
      ValueError: if `histories` is not two-dimensional or not of integers.
    """
    histories = np.asarray(histories)
    if histories.ndim != 2 or not np.issubdtype(histories.dtype, np.integer):
        raise ValueError(
            f"histories of shape {histories.shape} and type {histories.dtype}: "
            "pass [S, D] integers, padded with -1."
        )
    key = jax.random.PRNGKey(0) if key is None else key
    return _replay(env, jnp.asarray(histories, jnp.int32), jax.random.split(key, len(histories)))


@functools.partial(jax.jit, static_argnums=0)
def _replay(env: pgx.Env, histories: jax.Array, keys: jax.Array) -> Any:
    def play(state: Any, turn: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        action, played = turn
        after = env.step(state, jnp.maximum(action, 0))
        return jax.tree.map(lambda new, old: jnp.where(played, new, old), after, state), None

    def one(history: jax.Array, key: jax.Array) -> Any:
        played = jnp.cumprod(history >= 0).astype(bool)
        return jax.lax.scan(play, env.init(key), (history, played))[0]

    return jax.vmap(one)(histories, keys)


def _uniform(rng_key: jax.Array, mask: jax.Array) -> jax.Array:
    """Draws from the true entries of `[A]`."""
    logits = jnp.where(mask, 0.0, -jnp.inf)
    return jax.random.categorical(rng_key, logits).astype(jnp.int32)
