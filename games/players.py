"""Reference players: uniformly random play and perfect play."""

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
    """Returns a player that samples uniformly from the legal actions.

    The player is a pure function `(rng_key, state) -> action` of an unbatched pgx state. It
    consumes the key and returns int32 `[]`. Use `jax.vmap` for batches.
    """

    def act(rng_key: jax.Array, state: Any) -> jax.Array:
        return _sample_uniform(rng_key, state.legal_action_mask)

    return act


def perfect_player(env: pgx.Env) -> Player:
    """Returns a player that samples uniformly from the optimal actions.

    Args:
      env: a game that `games.solve` supports.

    Returns:
      A pure function `(rng_key, state) -> action` of an unbatched pgx state of `env`. It consumes
      the key and returns int32 `[]`. If the game is over, the action is arbitrary.

    Raises:
      ValueError: see `games.solve`.
    """
    solution = solvers.solve(env)

    def act(rng_key: jax.Array, state: Any) -> jax.Array:
        optimal = jnp.asarray(solution.code_optimal)[solution.code_fn(state)]
        return _sample_uniform(rng_key, jnp.where(optimal.any(), optimal, state.legal_action_mask))

    return act


def _sample_uniform(rng_key: jax.Array, mask: jax.Array) -> jax.Array:
    """Samples one of the true entries of an `[A]` mask."""
    logits = jnp.where(mask, 0.0, -jnp.inf)
    return jax.random.categorical(rng_key, logits).astype(jnp.int32)
