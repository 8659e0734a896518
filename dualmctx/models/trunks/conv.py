"""A residual trunk of 3x3 convolutions, for observations of boards."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from dualmctx.models.layer_norm import LayerNorm
from dualmctx.models.trunks.trunk import Trunk

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


class Block(nn.Module):
    """A pre-activation residual block of two convolutions.

    Layer normalisation is over all features of each board cell separately. The evaluation of a
    position therefore does not depend on the rest of its batch, even during training.
    """

    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, H, W, features]` to the same shape."""
        conv = functools.partial(Conv, self.features, dtype=self.dtype)
        norm = functools.partial(LayerNorm, dtype=self.dtype)
        y = nn.relu(norm(name="norm_0")(x))
        y = conv(kernel_init=nn.initializers.he_normal(), name="conv_0")(y)
        y = nn.relu(norm(name="norm_1")(y))
        # Starts at zero, so that the untrained block is the identity.
        return x + conv(kernel_init=nn.initializers.zeros, name="conv_1")(y)


def _is_board(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3


TRUNK = Trunk(
    make_stem=Conv,
    make_block=Block,
    accepts=_is_board,
    requirement="observations of shape (height, width, channels)",
)
