"""Layers of the trunks: normalisation and convolution, with the form that suits each platform."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn


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
