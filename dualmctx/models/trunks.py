"""The trunks of networks, their registry, and layers in the form that suits each platform.

A new trunk needs a stem, a block and one entry of the registry.
"""

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

_MAX_ATTENTION_HEADS = 4
_HIDDEN_FACTOR = 2


class LayerNorm(nn.Module):
    """flax's `LayerNorm`, with the variance computed by one of two formulas.

    Parameters, outputs and gradients are those of `flax.linen.LayerNorm`, up to rounding; mean and
    variance are float32.

    - E[(x − E[x])²] on NVIDIA GPUs, where no gradient is taken. XLA compiles the normalisation and
      the operations after it to one kernel, which reads the activations once.
    - E[x²] − E[x]², flax's default, elsewhere. On a GPU it takes two or three kernels, which read
      the activations twice. But its gradient moves fewer bytes, and on CPUs it is faster.
    """

    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalises `[..., features]` over the last axis; the result has the module's dtype."""
        scale = self.param("scale", nn.initializers.ones, x.shape[-1:], jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, x.shape[-1:], jnp.float32)
        return _normalize(self.dtype, x, scale, bias)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _normalize(dtype: Any, x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    return jax.lax.platform_dependent(
        *(x, scale, bias),
        cuda=functools.partial(_by_flax, dtype, fast_variance=False),
        default=functools.partial(_by_flax, dtype, fast_variance=True),
    )


@_normalize.defjvp
def _differentiate(
    dtype: Any, inputs: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    return jax.jvp(functools.partial(_by_flax, dtype, fast_variance=True), inputs, tangents)


def _by_flax(
    dtype: Any, x: jax.Array, scale: jax.Array, bias: jax.Array, *, fast_variance: bool
) -> jax.Array:
    # Without a parent, it is not a part of the module that calls it.
    norm = nn.LayerNorm(dtype=dtype, use_fast_variance=fast_variance, parent=None)
    result: Any = norm.apply({"params": {"scale": scale, "bias": bias}}, x)
    return result


_Gradients = tuple[jax.Array, jax.Array]


@jax.custom_vjp
def convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Convolves `[M, H, W, C]` with a `[3, 3, C, F]` kernel of the same dtype.

    The gradient is chosen by platform when the program is lowered. On a CPU, the gradient with
    respect to the kernel is one matrix product over patches: XLA's own gradient is a convolution
    over the batch, which is about 20 times slower on a CPU inside a loop. Other platforms use XLA's
    own, which cuDNN computes on NVIDIA GPUs. Only reverse-mode derivatives exist: `jax.grad` and
    `jax.vjp`, but not `jax.jvp` and `jax.hessian`.

    Returns:
      `[M, H, W, F]`.
    """
    return _convolve(x, kernel)


def _convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _convolve_forward(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, _Gradients]:
    return _convolve(x, kernel), (x, kernel)


def _convolve_backward(residuals: _Gradients, gradient: jax.Array) -> _Gradients:
    return jax.lax.platform_dependent(
        *residuals, gradient, cpu=_gradients_by_patches, default=_gradients_by_xla
    )


def _gradients_by_patches(x: jax.Array, kernel: jax.Array, gradient: jax.Array) -> _Gradients:
    height, width = x.shape[1:3]
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    patches = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    kernel_gradient = jnp.einsum("mhwp,mhwf->pf", jnp.concatenate(patches, axis=-1), gradient)
    x_gradient = _convolve(gradient, jnp.flip(kernel, (0, 1)).swapaxes(2, 3))
    return x_gradient, kernel_gradient.reshape(kernel.shape)


def _gradients_by_xla(x: jax.Array, kernel: jax.Array, gradient: jax.Array) -> _Gradients:
    return jax.vjp(_convolve, x, kernel)[1](gradient)


convolve.defvjp(_convolve_forward, _convolve_backward)


class Conv(nn.Module):
    """A 3x3 convolution with a bias."""

    features: int
    kernel_init: nn.initializers.Initializer = nn.initializers.lecun_normal()
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, H, W, C]` to `[M, H, W, features]`."""
        shape = (3, 3, x.shape[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        return convolve(x, kernel.astype(self.dtype)) + bias.astype(self.dtype).reshape(1, 1, 1, -1)


class Trunk(NamedTuple):
    """A kind of trunk: a stem, then residual blocks of one shape.

    Activations are arrays `[M, ..., width]` with the same shape and dtype after the stem and after
    every block, so that a network can stop at any depth and be resumed there. Their dtype, float32
    or bfloat16, is also that of all products. Parameters and the statistics of normalisation are
    float32; a search passes matrices and kernels in the dtype of the trunk (`network.cast_trunk`).

    Attributes:
      make_stem: `(width, dtype=dtype) -> module` that maps `[M, ...]` observations to activations.
      make_block: `(width, dtype=dtype) -> module` that maps activations to activations.
      accepts: whether the trunk accepts observations of a shape, without the batch axis.
      requirement: a description of the accepted shapes for error messages.
    """

    make_stem: Callable[..., nn.Module]
    make_block: Callable[..., nn.Module]
    accepts: Callable[[tuple[int, ...]], bool]
    requirement: str


class ResidualBlock(nn.Module):
    """A pre-activation residual block of two layers, each after a normalisation and a ReLU.

    Layer normalisation is over all features of each board cell separately. The evaluation of a
    position therefore does not depend on the rest of its batch, even during training.
    """

    features: int
    layer: Callable[..., nn.Module]
    prefix: str
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, ..., features]` to the same shape."""
        # The last layer starts at zero, so that the untrained block is the identity.
        y = x
        for i, init in enumerate((nn.initializers.he_normal(), nn.initializers.zeros)):
            y = nn.relu(LayerNorm(self.dtype, name=f"norm_{i}")(y))
            options: Any = {"kernel_init": init, "dtype": self.dtype, "name": f"{self.prefix}_{i}"}
            y = self.layer(self.features, **options)(y)
        return x + y


class DenseStem(nn.Dense):
    """A dense layer on the flattened observation."""

    def __call__(self, inputs: jax.Array) -> jax.Array:
        """Maps `[M, ...]` to `[M, features]`."""
        return super().__call__(inputs.reshape(inputs.shape[0], -1))


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
        make_block=functools.partial(ResidualBlock, layer=Conv, prefix="conv"),
        accepts=lambda shape: len(shape) == 3,
        requirement="observations of shape (height, width, channels)",
    ),
    # Residual blocks of dense layers.
    "mlp": Trunk(
        make_stem=DenseStem,
        make_block=functools.partial(ResidualBlock, layer=nn.Dense, prefix="dense"),
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
    """Returns the name of a trunk; for `auto`, one that accepts observations of this shape.

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
