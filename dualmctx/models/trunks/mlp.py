"""A residual trunk of dense layers, for observations of any shape, which it flattens."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from dualmctx.models.layer_norm import LayerNorm
from dualmctx.models.trunks.trunk import Trunk


class Stem(nn.Module):
    """A dense layer on the flattened observation."""

    features: int
    dtype: Any = jnp.float32

    def setup(self) -> None:
        """Creates the layer, with its parameters in this module's own scope."""
        self.dense = nn.Dense(self.features, dtype=self.dtype)
        nn.share_scope(self, self.dense)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, ...]` to `[M, features]`."""
        return self.dense(x.reshape(x.shape[0], -1))


class Block(nn.Module):
    """A pre-activation residual block of two dense layers, normalised as in `conv`."""

    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, features]` to the same shape."""
        dense = functools.partial(nn.Dense, self.features, dtype=self.dtype)
        norm = functools.partial(LayerNorm, dtype=self.dtype)
        y = nn.relu(norm(name="norm_0")(x))
        y = dense(kernel_init=nn.initializers.he_normal(), name="dense_0")(y)
        y = nn.relu(norm(name="norm_1")(y))
        # Starts at zero, so that the untrained block is the identity.
        return x + dense(kernel_init=nn.initializers.zeros, name="dense_1")(y)


def _is_any(shape: tuple[int, ...]) -> bool:
    return True


TRUNK = Trunk(
    make_stem=Stem,
    make_block=Block,
    accepts=_is_any,
    requirement="observations of any shape",
)
