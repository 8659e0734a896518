"""The replay buffer: the latest positions, on the device."""

from typing import Any

import chex
import flashbax
import jax
import jax.numpy as jnp

from dualmctx.training.batch import TrainingBatch
from dualmctx.training.targets import propagate_outcome


def make_replay(capacity: int, batch_size: int, num_games: int, num_steps: int) -> Any:
    """Returns a ring buffer of positions, one row per game, sampled uniformly with replacement.

    Args:
      capacity: number of positions, at least `num_games` times `num_steps`. Each of the parallel
        games gets an equal share; a remainder stays unused.
      batch_size: positions per batch, at most `capacity`.
      num_games: number of parallel games.
      num_steps: moves of each game that are added at once.

    Returns:
      A flashbax buffer of `[num_games, capacity // num_games]` positions: `init(position)`,
      `add(state, batch)`, `sample(state, rng_key)`.

    Raises:
      ValueError: if the buffer is too small.
    """
    if capacity < num_games * num_steps:
        raise ValueError(
            f"capacity is {capacity}; it must hold at least the {num_games * num_steps} positions "
            "of one iteration (num_games * num_steps)"
        )
    if batch_size > capacity:
        raise ValueError(
            f"batch_size is {batch_size}; it must be at most the capacity of {capacity} positions"
        )
    return flashbax.make_trajectory_buffer(
        add_batch_size=num_games,
        sample_batch_size=batch_size,
        sample_sequence_length=1,
        period=1,
        min_length_time_axis=1,
        max_length_time_axis=capacity // num_games,
    )


def add(buffer: Any, state: Any, batch: TrainingBatch) -> Any:
    """Adds `[T, B]` positions to the rows of their games, and their outcomes to older positions.

    Rows are independent, so the function can also be applied to one device's share of them.
    """
    batch = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), batch)
    first = jax.tree.map(lambda x: x[:, :1], batch)
    state = state.replace(experience=propagate_outcome(state.experience, first))
    with jax.numpy_rank_promotion("allow"):
        return buffer.add(state, batch)


def draw(buffer: Any, state: Any, rng_key: chex.PRNGKey) -> TrainingBatch:
    """Samples a batch of `[batch_size]` positions; consumes the key."""
    # flashbax adds arrays of different ranks, which a program's settings of JAX may forbid.
    with jax.numpy_rank_promotion("allow"):
        experience = buffer.sample(state, rng_key).experience
    return jax.tree.map(lambda x: x[:, 0], experience)
