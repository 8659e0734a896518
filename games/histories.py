"""Rebuilds states from move histories, in batches."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.errors import UserError

if TYPE_CHECKING:
    import pgx


# Histories in NumPy arrays are padded to at least this number of moves. The padding takes no time.
_MIN_MOVES = 64
# Batches of up to `_MAX_PADDED` histories are padded to a power of two, at least `_MIN_ROWS`.
_MIN_ROWS, _MAX_PADDED = 8, 1024


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
    return replay_checked(env, histories, key=key)[0]


def replay_checked(
    env: pgx.Env, histories: Any, starts: Any = None, *, key: jax.Array | None = None
) -> tuple[Any, jax.Array]:
    """Replays a batch of histories and finds the illegal ones.

    The first call compiles a program, and so does each new environment object. Further calls with
    other numbers of histories and moves rarely compile: NumPy arrays and lists are padded to at
    least 64 moves and, up to 1,024 histories, to powers of two from 8 on. The running time depends
    on the longest history, not on D.

    Args:
      env: any pgx environment.
      histories: `[S, D]` int32 actions; a history ends at its first negative number. An array of
        JAX is not padded and stays on its device.
      starts: `[S]` states from which the histories start, such as those of `set_up`. If None, the
        initial state of the game.
      key: as in `replay`, for games from the initial state.

    Returns:
      `[S]` states after the last action of each history, and `[S]` int32: the index of the first
      action that is illegal, out of range, or after the end of the game, or -1 if there is none.
      The state of an illegal history is the one before that action.

    Raises:
      ValueError: if `histories` is not a two-dimensional array of integers, or the number of
        `starts` is not S.
    """
    histories = _check_histories(histories)
    padded, number = _pad(histories), len(histories)
    if starts is None:
        return first_rows(_replay_new(env, padded, key), number)
    _check_starts(starts, number)
    return first_rows(_replay(env, padded, _pad_rows(starts, len(padded))), number)


def replay_unpadded(env: pgx.Env, histories: Any, starts: Any = None) -> tuple[Any, jax.Array]:
    """Replays histories as `replay_checked` does, but compiles a program for each shape.

    It never waits for the device. Use it for batches of one fixed shape.
    """
    histories = _check_histories(histories)
    if starts is None:
        return _replay_new(env, histories)
    _check_starts(starts, histories.shape[0])
    return _replay(env, histories, starts)


def pad_histories(
    histories: Sequence[Sequence[int]], num_rows: int | None = None, min_moves: int = 0
) -> np.ndarray:
    """Returns histories as `[S, D]` int32 actions, padded with -1.

    Args:
      histories: at most S histories.
      num_rows: S; by default their number.
      min_moves: the smallest D; by default that of the longest history.
    """
    depth = max([min_moves, *map(len, histories)])
    rows = np.full((len(histories) if num_rows is None else num_rows, depth), -1, np.int32)
    for row, history in zip(rows, histories, strict=False):
        row[: len(history)] = history
    return rows


def _check_histories(histories: Any) -> Any:
    # An array of JAX stays on its device.
    if not isinstance(histories, jax.Array):
        try:
            histories = np.asarray(histories)
        except ValueError:
            raise UserError("histories have different lengths: pad them with -1.") from None
    if histories.ndim != 2 or not np.issubdtype(histories.dtype, np.integer):
        raise UserError(
            f"histories of shape {histories.shape} and type {histories.dtype}: "
            "pass [S, D] integers, padded with -1."
        )
    if histories.dtype == np.int32:
        return histories
    # Numbers that int32 lacks are no actions.
    info = np.iinfo(histories.dtype)
    return histories.clip(max(info.min, -1), min(info.max, 2**31 - 1)).astype(np.int32)


def _check_starts(starts: Any, number: int) -> None:
    if np.shape(starts.current_player) != (number,):
        raise UserError(
            f"starts of shape {np.shape(starts.current_player)} for {number} histories: "
            "pass one state for each."
        )


def _pad(histories: Any) -> Any:
    """Pads `[S, D]` histories, so that few shapes occur."""
    number, depth = histories.shape
    if isinstance(histories, jax.Array) or not number:
        return histories
    rows = few_sizes(number) if number <= _MAX_PADDED else number
    columns = max(_MIN_MOVES, power_of_two(depth))
    padding = ((0, rows - number), (0, columns - depth))
    return np.pad(histories, padding, constant_values=-1)


def power_of_two(number: int) -> int:
    """Returns the smallest power of two that is not smaller than a number."""
    return 1 << max(number - 1, 0).bit_length()


def few_sizes(number: int) -> int:
    """Returns the size to which a number of rows is padded, so that few programs are compiled."""
    return power_of_two(max(number, _MIN_ROWS))


def _pad_rows(states: Any, size: int) -> Any:
    """Pads `[S]` states to `[size]` by repetition, with NumPy, because JAX would compile."""
    number = len(states.current_player)
    if number == size:
        return states
    index = np.arange(size) % number
    return jax.tree.map(lambda x: x[index], jax.device_get(states))


def first_rows(found: Any, number: int) -> Any:
    """Returns the first rows of arrays; uses NumPy, because JAX would compile for each number."""
    if len(jax.tree.leaves(found)[0]) == number:
        return found
    return jax.device_put(jax.tree.map(lambda x: x[:number], jax.device_get(found)))


@functools.partial(jax.jit, static_argnums=0)
def _replay_new(
    env: pgx.Env, histories: jax.Array, key: jax.Array | None = None
) -> tuple[Any, jax.Array]:
    """Replays from the initial state; `key` is consumed to start the games, see `replay`."""
    key = jax.random.PRNGKey(0) if key is None else key
    starts = jax.vmap(env.init)(jax.random.split(key, len(histories)))
    return _replay(env, histories, starts)


@functools.partial(jax.jit, static_argnums=0)
def _replay(env: pgx.Env, histories: jax.Array, starts: Any) -> tuple[Any, jax.Array]:
    # The additional column of -1 ends every history.
    histories = jnp.pad(histories, ((0, 0), (0, 1)), constant_values=-1)
    lengths = jnp.argmax(histories < 0, axis=1)

    def is_active(ply: jax.Array, first_bad: jax.Array) -> jax.Array:
        return (ply < lengths) & (first_bad < 0)

    def play(carry: tuple) -> tuple:
        ply, states, first_bad = carry
        active = is_active(ply, first_bad)
        states, is_played = step_legal(env, states, histories[:, ply], active)
        return ply + 1, states, jnp.where(active & ~is_played, ply, first_bad)

    carry = (jnp.int32(0), starts, jnp.full(histories.shape[0], -1, jnp.int32))
    carry = jax.lax.while_loop(lambda x: is_active(x[0], x[2]).any(), play, carry)
    return carry[1], carry[2]


def step_legal(
    env: pgx.Env, states: Any, actions: jax.Array, is_asked: jax.Array
) -> tuple[Any, jax.Array]:
    """Plays `[S]` actions where they are asked for and legal, and the game is not over.

    Returns the `[S]` states, and `[S]` bool, where an action was played.
    """
    mask = states.legal_action_mask
    legal = jnp.take_along_axis(mask, actions[:, None], axis=1, mode="fill", fill_value=False)
    is_played = is_asked & legal[:, 0] & ~(states.terminated | states.truncated)
    after = jax.vmap(env.step)(states, jnp.where(is_played, actions, 0))
    return select_rows(is_played, after, states), is_played


def select_rows(mask: Any, if_true: Any, if_false: Any) -> Any:
    """Selects rows of `[S, ...]` arrays: `if_true` where an `[S]` mask is true, else `if_false`."""

    def select(one: Any, other: Any) -> jax.Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (one.ndim - 1)), one, other)

    return jax.tree.map(select, if_true, if_false)
