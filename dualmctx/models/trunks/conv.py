"""A residual trunk of 3x3 convolutions, for observations of boards."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import jax
import jax.numpy as jnp
from flax import linen as nn

from dualmctx.models.trunks.trunk import Trunk


@jax.custom_vjp
def convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Convolves `[M, H, W, C]` with a `[3, 3, C, F]` kernel; returns `[M, H, W, F]`.

    The gradient with respect to the kernel is one matrix product over patches. XLA's own gradient
    is a convolution over the batch, which is about 20 times slower on a CPU inside a loop.
    """
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _convolve_forward(
    x: jax.Array, kernel: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return convolve(x, kernel), (x, kernel)


def _convolve_backward(
    residuals: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x, kernel = residuals
    height, width = x.shape[1:3]
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    patches = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    kernel_gradient = jnp.einsum("mhwp,mhwf->pf", jnp.concatenate(patches, axis=-1), gradient)
    x_gradient = convolve(gradient, jnp.flip(kernel, (0, 1)).swapaxes(2, 3))
    return x_gradient, kernel_gradient.reshape(kernel.shape)


convolve.defvjp(_convolve_forward, _convolve_backward)


class Conv(nn.Module):
    """A 3x3 convolution with a bias."""

    features: int
    kernel_init: nn.initializers.Initializer = nn.initializers.lecun_normal()

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, H, W, C]` to `[M, H, W, features]`."""
        shape = (3, 3, x.shape[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        return convolve(x, kernel) + bias.reshape(1, 1, 1, -1)


class Block(nn.Module):
    """A pre-activation residual block of two convolutions.

    Layer normalisation is over all features of each board cell separately. The evaluation of a
    position therefore does not depend on the rest of its batch, even during training.
    """

    features: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, H, W, features]` to the same shape."""
        y = Conv(self.features, kernel_init=nn.initializers.he_normal(), name="conv_0")(
            nn.relu(nn.LayerNorm(name="norm_0")(x))
        )
        # Starts at zero, so that the untrained block is the identity.
        y = Conv(self.features, kernel_init=nn.initializers.zeros, name="conv_1")(
            nn.relu(nn.LayerNorm(name="norm_1")(y))
        )
        return x + y


def _is_board(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3


TRUNK = Trunk(
    make_stem=Conv,
    make_block=Block,
    accepts=_is_board,
    requirement="observations of shape (height, width, channels)",
)
