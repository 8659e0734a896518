"""Layer normalisation, which XLA can run as one kernel on a GPU."""

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
