"""A residual trunk of dense layers, for observations of any shape, which it flattens."""

import jax
from flax import linen as nn

from dualmctx.models.trunks.trunk import Trunk


class Stem(nn.Module):
    """A dense layer on the flattened observation."""

    features: int

    def setup(self) -> None:
        """Creates the layer, with its parameters in this module's own scope."""
        self.dense = nn.Dense(self.features)
        nn.share_scope(self, self.dense)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, ...]` to `[M, features]`."""
        return self.dense(x.reshape(x.shape[0], -1))


class Block(nn.Module):
    """A pre-activation residual block of two dense layers, normalised as in `conv`."""

    features: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, features]` to the same shape."""
        y = nn.Dense(self.features, kernel_init=nn.initializers.he_normal(), name="dense_0")(
            nn.relu(nn.LayerNorm(name="norm_0")(x))
        )
        # Starts at zero, so that the untrained block is the identity.
        y = nn.Dense(self.features, kernel_init=nn.initializers.zeros, name="dense_1")(
            nn.relu(nn.LayerNorm(name="norm_1")(y))
        )
        return x + y


def _is_any(shape: tuple[int, ...]) -> bool:
    return True


TRUNK = Trunk(
    make_stem=Stem,
    make_block=Block,
    accepts=_is_any,
    requirement="observations of any shape",
)
