"""Augmentation of positions by the symmetries of their game."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from dualmctx.errors import UserError
from dualmctx.training.batch import TrainingBatch, stored_fields
from dualmctx.training.learner import AugmentFn


def make_augment(observation_index: Any, action_index: Any) -> AugmentFn:
    """Returns a function that applies a uniformly sampled symmetry to each position.

    The network therefore learns all symmetric forms of each position. `TrainingBatch` declares
    which fields a symmetry permutes: the observation, the legal actions and the policy. Their new
    entry i is the old entry `index[s, i]`, with the same s for all fields of a position. The other
    fields, such as the value, do not change.

    Args:
      observation_index: `[S, D]` int32, a permutation of the flattened observation for each of the
        S symmetries, such as `games.symmetries(env).observation`.
      action_index: `[S, A]` int32, the same for the actions.

    Returns:
      `(rng_key, batch) -> batch`, for `[M]` positions; the key is consumed.

    Raises:
      ValueError: if the identity is the only symmetry.

    Source: Silver et al. 2017 (AlphaGo Zero), "Neural network training", which uses the eight
    symmetries of the square.
    """
    num_symmetries = len(action_index)
    if num_symmetries < 2:
        raise UserError("augment is True, but the game has no symmetries; leave augment False")

    def augment(rng_key: chex.PRNGKey, batch: TrainingBatch) -> TrainingBatch:
        symmetry = jax.random.randint(rng_key, batch.policy.shape[:1], 0, num_symmetries)
        indices = {
            "observation": jnp.asarray(observation_index)[symmetry],
            "action": jnp.asarray(action_index)[symmetry],
        }
        permuted = {
            name: permute(getattr(batch, name), indices[field.symmetry])
            for name, field in stored_fields(type(batch)).items()
            if field.symmetry is not None
        }
        return batch._replace(**permuted)

    return augment


def permute(x: chex.Array, index: chex.Array) -> chex.Array:
    """Permutes the flattened entries of each of `[M, ...]` by `[M, D]` indices."""
    return jnp.take_along_axis(x.reshape(index.shape), index, axis=1).reshape(x.shape)
