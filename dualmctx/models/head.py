"""A policy-value head, the same for every trunk."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from dualmctx.models.layer_norm import LayerNorm


class HeadOutput(NamedTuple):
    """The evaluation of positions by one head.

    Attributes:
      logits: `[M, A]` float32 policy logits; illegal actions are not masked.
      value: `[M]` float32 in [-1, 1], from the view of the player to move.
    """

    logits: jax.Array
    value: jax.Array


class Head(nn.Module):
    """A policy head and a value head on the activations of a trunk, in float32."""

    num_actions: int

    @nn.compact
    def __call__(self, x: jax.Array) -> HeadOutput:
        """Evaluates `[M, ..., width]` activations."""
        x = nn.relu(LayerNorm(dtype=jnp.float32, name="norm")(x))
        policy, value = x, x
        if x.ndim > 2:
            # One dense layer shared by all cells or tokens, that is, a 1x1 convolution.
            policy = nn.relu(nn.Dense(8, name="policy_conv")(x))
            value = nn.relu(nn.Dense(4, name="value_conv")(x))
        policy = policy.reshape(policy.shape[0], -1)
        value = value.reshape(value.shape[0], -1)
        # Zero kernels: an untrained network has uniform logits, so its search can be checked by
        # hand.
        zeros = nn.initializers.zeros
        logits = nn.Dense(self.num_actions, kernel_init=zeros, name="policy")(policy)
        value = nn.relu(nn.Dense(64, name="value_hidden")(value))
        value = nn.Dense(1, kernel_init=zeros, name="value")(value)[..., 0]
        return HeadOutput(logits, jnp.tanh(value))
