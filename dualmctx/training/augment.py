"""Augmentation: positions to learn from, seen by the symmetries of their game."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from dualmctx.training.learner import AugmentFn
from dualmctx.training.targets import TrainingBatch


def make_augment(observation_index: Any, action_index: Any) -> AugmentFn:
    """Makes the function that shows each position by a symmetry drawn for it, uniformly.

    The network then learns a position as if it had been met in all of these forms. What it is worth
    stays; of the observation, the legal actions and the policy, entry i becomes the old entry
    `index[s, i]`, with s the same for all three.

    Args:
      observation_index: `[S, D]` int32, a permutation of the flattened observation for each of the
        S symmetries, such as `games.symmetries(env).observation`.
      action_index: `[S, A]` int32, likewise for the actions.

    Returns:
      `(rng_key, samples) -> samples`, for `[M]` positions; the key is consumed.

    Raises:
      ValueError: when there is no symmetry but the first, in one line.

    Source: Silver et al. 2017 (AlphaGo Zero), "Neural network training": the eight of the square.
    """
    num_symmetries = len(action_index)
    if num_symmetries < 2:
        raise ValueError("augment is True, but the game has no symmetries; leave augment False")

    def augment(rng_key: chex.PRNGKey, samples: TrainingBatch) -> TrainingBatch:
        which = jax.random.randint(rng_key, samples.policy.shape[:1], 0, num_symmetries)
        entries, actions = (jnp.asarray(x)[which] for x in (observation_index, action_index))
        return samples._replace(
            observation=_rearrange(samples.observation, entries),
            legal_action_mask=_rearrange(samples.legal_action_mask, actions),
            policy=_rearrange(samples.policy, actions),
        )

    return augment


def _rearrange(x: chex.Array, index: chex.Array) -> chex.Array:
    """Takes the entries of each of `[M, ...]` in the order of `[M, D]`."""
    return jnp.take_along_axis(x.reshape(index.shape), index, axis=1).reshape(x.shape)
