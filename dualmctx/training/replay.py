"""The replay buffer: the latest positions, on the device."""

from typing import Any

import chex
import flashbax
import jax
import jax.numpy as jnp

from dualmctx.training.targets import TrainingBatch, propagate_outcome


def make_replay(capacity: int, batch_size: int, num_games: int, num_steps: int) -> Any:
    """Makes a ring buffer of positions, a row a game played, sampled uniformly with replacement.

    Args:
      capacity: positions kept, as many of each of the games that are played side by side, so at
        least `num_games` times `num_steps`; what does not divide by `num_games` is left out.
      batch_size: positions a sample, at most `capacity`.
      num_games: games played side by side.
      num_steps: moves of each that are added at once.

    Returns:
      A flashbax buffer of `[num_games, capacity // num_games]` positions: `init(sample)`,
      `add(state, samples)`, `sample(state, rng_key)`.

    Raises:
      ValueError: when the buffer is too small, in one line.
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


def add(buffer: Any, state: Any, samples: TrainingBatch) -> Any:
    """Adds `[T, B]` positions to the rows of their games, and tells older ones how these went on.

    Each row is by itself, so this also works on any share of the rows.
    """
    samples = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), samples)
    first = jax.tree.map(lambda x: x[:, :1], samples)
    state = state.replace(experience=propagate_outcome(state.experience, first))
    with jax.numpy_rank_promotion("allow"):
        return buffer.add(state, samples)


def draw(buffer: Any, state: Any, rng_key: chex.PRNGKey) -> TrainingBatch:
    """Draws a batch of `[batch_size]` positions; the key is consumed."""
    # flashbax adds arrays of different ranks, which a program's own setting may forbid.
    with jax.numpy_rank_promotion("allow"):
        experience = buffer.sample(state, rng_key).experience
    return jax.tree.map(lambda x: x[:, 0], experience)
