"""The replay buffer: the latest positions, on the device."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import flashbax
import jax
import jax.numpy as jnp

from dualmctx.errors import UserError
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.targets import propagate_outcome


class Replay(NamedTuple):
    """A replay buffer as three pure functions of its state, a pytree of arrays.

    Attributes:
      init: `(batch) -> state`: an empty buffer for positions like those of a `[T, B]` batch, of
        which only the shapes and dtypes are read.
      add: `(state, batch) -> state`: adds `[T, B]` positions to the rows of their games, and their
        outcomes to older positions. Rows are independent, so a device can add its share of them.
      sample: `(state, rng_key) -> batch`: samples `[batch_size]` positions uniformly, with
        replacement; consumes the key. The buffer must hold at least one position.
    """

    init: Callable[[TrainingBatch], Any]
    add: Callable[[Any, TrainingBatch], Any]
    sample: Callable[[Any, chex.PRNGKey], TrainingBatch]


def make_replay(*, capacity: int, batch_size: int, num_games: int, num_steps: int) -> Replay:
    """Returns a ring buffer of positions with one row of the latest moves per game.

    Args:
      capacity: number of positions, at least `num_games` times `num_steps`. Each of the parallel
        games gets an equal share; a remainder stays unused.
      batch_size: positions per sampled batch, at most `capacity`.
      num_games: B, the number of parallel games.
      num_steps: T, the moves of each game that are added at once.

    Returns:
      The buffer. Its state is that of flashbax's trajectory buffer.

    Raises:
      ValueError: if the buffer is too small.
    """
    if capacity < num_games * num_steps:
        raise UserError(
            f"capacity is {capacity}; it must hold at least the {num_games * num_steps} positions "
            "of one iteration (num_games * num_steps)"
        )
    if batch_size > capacity:
        raise UserError(
            f"batch_size is {batch_size}; it must be at most the capacity of {capacity} positions"
        )
    buffer = flashbax.make_trajectory_buffer(
        add_batch_size=num_games,
        sample_batch_size=batch_size,
        sample_sequence_length=1,
        period=1,
        min_length_time_axis=1,
        max_length_time_axis=capacity // num_games,
    )

    def init(batch: TrainingBatch) -> Any:
        return buffer.init(jax.tree.map(lambda x: jnp.zeros(x.shape[2:], x.dtype), batch))

    # flashbax adds arrays of different ranks, which a program's settings of JAX may forbid.
    def add(state: Any, batch: TrainingBatch) -> Any:
        batch = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), batch)
        first = jax.tree.map(lambda x: x[:, :1], batch)
        state = state.replace(experience=propagate_outcome(state.experience, first))
        with jax.numpy_rank_promotion("allow"):
            return buffer.add(state, batch)

    def sample(state: Any, rng_key: chex.PRNGKey) -> TrainingBatch:
        with jax.numpy_rank_promotion("allow"):
            experience = buffer.sample(state, rng_key).experience
        return jax.tree.map(lambda x: x[:, 0], experience)

    return Replay(init, add, sample)
