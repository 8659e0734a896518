"""The trunks of networks and their registry; a new trunk needs a stem, a block and one entry."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from dualmctx.errors import UserError
from dualmctx.models.layers import Conv, LayerNorm

_MAX_ATTENTION_HEADS = 4
_HIDDEN_FACTOR = 2


class Trunk(NamedTuple):
    """A kind of trunk: a stem, then residual blocks of one shape.

    Activations are arrays `[M, ..., width]` with the same shape and dtype after the stem and after
    every block, so that a network can stop at any depth and be resumed there. Their dtype, float32
    or bfloat16, is also that of all products. Parameters and the statistics of normalisation are
    float32; a search passes matrices and kernels in the dtype of the trunk (`network.cast_trunk`).

    Attributes:
      make_stem: `(width, dtype=dtype) -> module` that maps `[M, ...]` observations to activations.
      make_block: `(width, dtype=dtype) -> module` that maps activations to activations.
      accepts: `(shape) -> bool`, whether the trunk accepts observations of this shape, without the
        batch axis.
      requirement: a description of the accepted shapes for error messages.
    """

    make_stem: Callable[..., nn.Module]
    make_block: Callable[..., nn.Module]
    accepts: Callable[[tuple[int, ...]], bool]
    requirement: str


def _two_layers(x: jax.Array, layer: Callable[..., nn.Module], name: str, dtype: Any) -> jax.Array:
    """Applies two layers, each after a normalisation and a ReLU; call it in a compact method."""
    norm = functools.partial(LayerNorm, dtype=dtype)
    y = nn.relu(norm(name="norm_0")(x))
    y = layer(kernel_init=nn.initializers.he_normal(), dtype=dtype, name=f"{name}_0")(y)
    y = nn.relu(norm(name="norm_1")(y))
    # Starts at zero, so that the untrained block is the identity.
    return layer(kernel_init=nn.initializers.zeros, dtype=dtype, name=f"{name}_1")(y)


class ConvBlock(nn.Module):
    """A pre-activation residual block of two convolutions.

    Layer normalisation is over all features of each board cell separately. The evaluation of a
    position therefore does not depend on the rest of its batch, even during training.
    """

    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, H, W, features]` to the same shape."""
        return x + _two_layers(x, functools.partial(Conv, self.features), "conv", self.dtype)


class DenseStem(nn.Module):
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


class DenseBlock(nn.Module):
    """A pre-activation residual block of two dense layers, normalised as in `ConvBlock`."""

    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, features]` to the same shape."""
        return x + _two_layers(x, functools.partial(nn.Dense, self.features), "dense", self.dtype)


class TokenStem(nn.Module):
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


class TransformerBlock(nn.Module):
    """A pre-norm transformer block: self-attention, then two dense layers per token.

    The number of attention heads is the greatest common divisor of the width and 4.

    Source: Vaswani et al. 2017, encoder only, with layer normalisation before each sublayer
    (Xiong et al. 2020). Our deviation: the last layer of each sublayer starts at zero, as in the
    other trunks, so that an untrained block is the identity.
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


TRUNKS: dict[str, Trunk] = {
    # Residual blocks of 3x3 convolutions.
    "conv": Trunk(
        make_stem=Conv,
        make_block=ConvBlock,
        accepts=lambda shape: len(shape) == 3,
        requirement="observations of shape (height, width, channels)",
    ),
    # Residual blocks of dense layers.
    "mlp": Trunk(
        make_stem=DenseStem,
        make_block=DenseBlock,
        accepts=lambda shape: True,
        requirement="observations of any shape",
    ),
    # Transformer blocks over the cells of a board, or over the features of a vector.
    "transformer": Trunk(
        make_stem=TokenStem,
        make_block=TransformerBlock,
        accepts=lambda shape: len(shape) >= 1,
        requirement="observations with at least one axis",
    ),
}

AUTO = "auto"
"""A name that selects the first trunk of the registry that accepts the observations."""


def choose_trunk(name: str, observation_shape: tuple[int, ...]) -> str:
    """Returns the name of a trunk for a game's observations.

    Args:
      name: a name in the registry, or `auto`.
      observation_shape: the shape of one observation, without a batch axis.

    Raises:
      ValueError: if there is no trunk of this name, or if it does not accept the observations.
    """
    accepting = [known for known, trunk in TRUNKS.items() if trunk.accepts(observation_shape)]
    if name == AUTO:
        return accepting[0]
    if name not in TRUNKS:
        raise UserError(f"trunk is {name}; it must be one of {', '.join((AUTO, *TRUNKS))}")
    if name not in accepting:
        raise UserError(
            f"trunk is {name}, which needs {TRUNKS[name].requirement}; for observations of shape "
            f"{observation_shape} use {' or '.join(accepting)}"
        )
    return name
