"""Rebuilds states from move histories, in batches."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    import pgx


def replay(env: pgx.Env, histories: Any, key: jax.Array | None = None) -> Any:
    """Replays a batch of histories from the initial state.

    Args:
      env: any pgx environment.
      histories: as in `replay_checked`; a history stops before its first illegal action.
      key: consumed to start the games; it decides which player moves first. A fixed key if None.

    Returns:
      `[S]` states after the last action of each history.

    Raises:
      ValueError: see `replay_checked`.
    """
    key = jax.random.PRNGKey(0) if key is None else key
    histories = _check_histories(histories)
    return _replay(env, histories, _init_states(env, jax.random.split(key, len(histories))))[0]


def replay_checked(env: pgx.Env, histories: Any, starts: Any = None) -> tuple[Any, jax.Array]:
    """Replays a batch of histories and finds the illegal ones.

    The program is compiled once for each environment object and shape. Its running time depends on
    the longest history, not on D.

    Args:
      env: any pgx environment.
      histories: `[S, D]` int32 actions; a history ends at its first negative number.
      starts: `[S]` states from which the histories start, such as those of `set_up`. If None, the
        initial state of the game, with the fixed key of `replay`.

    Returns:
      `[S]` states after the last action of each history, and `[S]` int32: the index of the first
      action that is illegal, out of range, or after the end of the game, or -1 if there is none.
      The state of an illegal history is the one before that action.

    Raises:
      ValueError: if `histories` is not a two-dimensional array of integers, or the number of
        `starts` is not S.
    """
    histories = _check_histories(histories)
    if starts is None:
        starts = _init_states(env, jax.random.split(jax.random.PRNGKey(0), len(histories)))
    if np.shape(starts.current_player) != (len(histories),):
        raise ValueError(
            f"starts of shape {np.shape(starts.current_player)} for {len(histories)} histories: "
            "pass one state for each."
        )
    return _replay(env, histories, starts)


def _check_histories(histories: Any) -> jax.Array:
    # An array of JAX stays on its device.
    histories = histories if isinstance(histories, jax.Array) else np.asarray(histories)
    if histories.ndim != 2 or not np.issubdtype(histories.dtype, np.integer):
        raise ValueError(
            f"histories of shape {histories.shape} and type {histories.dtype}: "
            "pass [S, D] integers, padded with -1."
        )
    return jnp.asarray(histories, jnp.int32)


@functools.partial(jax.jit, static_argnums=0)
def _init_states(env: pgx.Env, keys: jax.Array) -> Any:
    return jax.vmap(env.init)(keys)


@functools.partial(jax.jit, static_argnums=0)
def _replay(env: pgx.Env, histories: jax.Array, starts: Any) -> tuple[Any, jax.Array]:
    # The additional column of -1 ends every history.
    histories = jnp.pad(histories, ((0, 0), (0, 1)), constant_values=-1)
    lengths = jnp.argmax(histories < 0, axis=1)

    def is_active(ply: jax.Array, first_bad: jax.Array) -> jax.Array:
        return (ply < lengths) & (first_bad < 0)

    def play(carry: tuple) -> tuple:
        ply, states, first_bad = carry
        action = histories[:, ply]
        mask = states.legal_action_mask
        legal = jnp.take_along_axis(mask, action[:, None], axis=1, mode="fill", fill_value=False)
        legal = legal[:, 0] & ~(states.terminated | states.truncated)
        active = is_active(ply, first_bad)
        after = jax.vmap(env.step)(states, jnp.where(active & legal, action, 0))
        states = jax.tree.map(functools.partial(select_rows, active & legal), after, states)
        return ply + 1, states, jnp.where(active & ~legal, ply, first_bad)

    carry = (jnp.int32(0), starts, jnp.full(len(histories), -1, jnp.int32))
    carry = jax.lax.while_loop(lambda x: is_active(x[0], x[2]).any(), play, carry)
    return carry[1], carry[2]


def select_rows(mask: jax.Array, if_true: jax.Array, if_false: jax.Array) -> jax.Array:
    """Selects `[S, ...]` rows of `if_true` where the `[S]` mask is true, else of `if_false`."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (if_true.ndim - 1)), if_true, if_false)
