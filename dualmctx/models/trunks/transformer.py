"""A trunk of transformer blocks over the cells of a board, or over the features of a vector.

Source: Vaswani et al. 2017, encoder only, with layer normalisation before each sublayer
(Xiong et al. 2020). Our deviation: the last layer of each sublayer starts at zero, as in the other
trunks, so that an untrained block is the identity.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from dualmctx.models.layer_norm import LayerNorm
from dualmctx.models.trunks.trunk import Trunk

_MAX_ATTENTION_HEADS = 4
_HIDDEN_FACTOR = 2


class Stem(nn.Module):
    """Maps tokens to features and adds a learned vector per position."""

    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, ...]` to `[M, T, features]`.

        The last axis of an observation `[..., F]` holds the features of a token; the other axes
        enumerate its T tokens. An observation `[F]` has F tokens with one feature each.
        """
        tokens = x[..., None] if x.ndim == 2 else x.reshape(x.shape[0], -1, x.shape[-1])
        shape = (tokens.shape[1], self.features)
        position = self.param("position", nn.initializers.normal(0.02), shape, jnp.float32)
        x = nn.Dense(self.features, dtype=self.dtype, name="token")(tokens)
        return x + position.astype(self.dtype)


class Block(nn.Module):
    """A pre-norm transformer block: self-attention, then two dense layers per token.

    The number of attention heads is the greatest common divisor of the width and 4.
    """

    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, T, features]` to the same shape."""
        zeros = nn.initializers.zeros
        dense = functools.partial(nn.Dense, dtype=self.dtype)
        norm = functools.partial(LayerNorm, dtype=self.dtype)
        attention = nn.MultiHeadDotProductAttention(
            num_heads=math.gcd(self.features, _MAX_ATTENTION_HEADS),
            dtype=self.dtype,
            force_fp32_for_softmax=True,
            out_kernel_init=zeros,
            name="attention",
        )
        x = x + attention(norm(name="norm_0")(x))
        y = norm(name="norm_1")(x)
        y = nn.gelu(dense(_HIDDEN_FACTOR * self.features, name="dense_0")(y))
        return x + dense(self.features, kernel_init=zeros, name="dense_1")(y)


def _has_axes(shape: tuple[int, ...]) -> bool:
    return len(shape) >= 1


TRUNK = Trunk(
    make_stem=Stem,
    make_block=Block,
    accepts=_has_axes,
    requirement="observations with at least one axis",
)
