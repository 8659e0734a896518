"""Positions after random moves, played on the device."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.types import Environment
from games.histories import select_rows

# Random plies before a position, both included. After fewer plies the solver of Connect Four takes
# seconds, and few games last longer.
_PLIES = (8, 36)
_GAMES = 2048  # random games that are played at once
_ROWS = 64  # the largest number of positions of a batch


def random_positions(env: Environment, seed: int) -> Iterator[Any]:
    """Yields batches of positions after 8 to 36 uniformly random legal moves, without end.

    The positions are distinct, and no game is over. The number of moves is uniform; games that end
    before it are left out.

    Args:
      env: a game, as `games.make` returns it, with enough such positions.
      seed: the same seed gives the same positions.

    Yields:
      `[R]` states as NumPy arrays, R at most 64.
    """
    seen: set[bytes] = set()
    for chunk in itertools.count():
        key = jax.random.fold_in(jax.random.PRNGKey(seed), chunk)
        states, is_over = jax.device_get(_random_states(env, key))
        names = [x.tobytes() for x in states.observation]
        fresh = []
        for row in np.flatnonzero(~is_over):
            if names[row] not in seen:
                seen.add(names[row])
                fresh.append(row)
        for start in range(0, len(fresh), _ROWS):
            rows = np.array(fresh[start : start + _ROWS])
            yield jax.tree.map(lambda x, rows=rows: x[rows], states)


@functools.partial(jax.jit, static_argnums=0)
def _random_states(env: Environment, rng_key: jax.Array) -> tuple[Any, jax.Array]:
    """Plays random games; returns `[_GAMES]` states and whether their games are over."""
    start_key, length_key, move_key = jax.random.split(rng_key, 3)
    states = jax.vmap(env.init)(jax.random.split(start_key, _GAMES))
    lengths = jax.random.randint(length_key, (_GAMES,), _PLIES[0], _PLIES[1] + 1)

    def play(ply: jax.Array, states: Any) -> Any:
        logits = jnp.where(states.legal_action_mask, 0.0, -jnp.inf)
        actions = jax.random.categorical(jax.random.fold_in(move_key, ply), logits)
        after = jax.vmap(env.step)(states, actions.astype(jnp.int32))
        goes_on = (ply < lengths) & ~states.terminated & ~states.truncated
        return jax.tree.map(functools.partial(select_rows, goes_on), after, states)

    states = jax.lax.fori_loop(0, _PLIES[1], play, states)
    return states, states.terminated | states.truncated
