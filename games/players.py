"""Players to measure against."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

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


def _uniform(rng_key: jax.Array, mask: jax.Array) -> jax.Array:
    """Draws from the true entries of `[A]`."""
    logits = jnp.where(mask, 0.0, -jnp.inf)
    return jax.random.categorical(rng_key, logits).astype(jnp.int32)
