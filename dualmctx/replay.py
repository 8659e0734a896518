"""The replay buffer: the latest positions, on the device."""

from typing import Any

import chex
import flashbax
import jax

from dualmctx.targets import Samples


def make_replay(capacity: int, batch_size: int, num_added: int) -> Any:
    """Makes a ring buffer of positions that is sampled uniformly, with replacement.

    Args:
      capacity: positions kept, at least `num_added`.
      batch_size: positions a sample, at most `capacity`.
      num_added: positions added at once.

    Returns:
      A flashbax buffer: `init(sample)`, `add(state, samples)`, `sample(state, rng_key)`.

    Raises:
      ValueError: when the buffer is too small, in one line.
    """
    if capacity < num_added:
        raise ValueError(
            f"capacity is {capacity}; it must hold at least the {num_added} positions of one "
            "iteration (num_games * num_steps)"
        )
    if batch_size > capacity:
        raise ValueError(
            f"batch_size is {batch_size}; it must be at most the capacity of {capacity} positions"
        )
    return flashbax.make_item_buffer(
        max_length=capacity,
        min_length=1,
        sample_batch_size=batch_size,
        add_batches=True,
    )


def flatten(samples: Samples) -> Samples:
    """Merges the `[T, B]` axes of samples into one."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)


def draw(buffer: Any, state: Any, rng_key: chex.PRNGKey) -> Samples:
    """Draws a batch of `[batch_size]` positions; the key is consumed."""
    return buffer.sample(state, rng_key).experience
