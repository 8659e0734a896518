"""Gamma variates, from which policies make the noise at the root.

`jax.random` samples them by rejection, in loops whose length depends on the samples. On a GPU, XLA
asks after each iteration whether to go on. `log_gamma_by_lane` is the same sampler for a kernel,
which runs the loops as a whole (`kernels.log_gamma`).

Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables". The split of the
keys, and the method for alpha < 1 in log space, are those of `jax.random`.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.search.arrays import any_true, tree_where
from dualmctx.search.keys import sample_rows
from dualmctx.search.threefry import TreeKey


def log_gamma(rng_key: Array, alphas: Array) -> Array:
    """Samples logarithms of gamma variates, as `jax.random.loggamma`.

    Args:
      rng_key: consumed; one key, or `[B]` keys.
      alphas: `[B, A]`, the shape parameter of each variate; positive.

    Returns:
      `[B, A]` samples of the type of `alphas`.
    """
    return sample_rows(lambda key, a: jax.random.loggamma(key, a, dtype=a.dtype), rng_key, alphas)


class _Proposal(NamedTuple):
    """A proposal of the rejection: X, V, U, and the key of the next proposal; `[1, L]` each."""

    key: TreeKey
    normal: Array
    cube: Array
    uniform: Array


def log_gamma_by_lane(key: TreeKey, alpha: Array) -> Array:
    """Samples `[1, L]` numbers in a kernel, each with a key of its own.

    With X normal, U uniform, d = α − 1/3, c = 1 / (3 √d) and V = (1 + c X)³, the product d V is a
    sample if V > 0 and log U < X²/2 + d (1 − V + log V). If α < 1, α + 1 takes its place in d, and
    the sample is multiplied by a uniform number to the power 1/α.
    """
    boosted = jnp.where(alpha >= 1, alpha, alpha + 1)
    third = np.float32(1 / 3)
    d = boosted - third
    c = third / jnp.sqrt(d)

    def is_rejected(state: _Proposal) -> Array:
        square, cube, uniform = jnp.square(state.normal), state.cube, state.uniform
        bound = square * np.float32(0.5) + d * ((1 - cube) + jnp.log(cube))
        # As in JAX, a cheaper test accepts most proposals. Up to rounding, the exact one does too.
        return (uniform >= 1 - np.float32(0.0331) * square**2) & (jnp.log(uniform) >= bound)

    def propose(state: _Proposal) -> _Proposal:
        normal, root = _sample_normal(state.key.child(1), c)
        uniform = _uniform(state.key.child(2))
        new = _Proposal(state.key.child(0), normal, root**3, uniform)
        return tree_where(is_rejected(state), new, state)

    zeros = jnp.zeros_like(alpha)
    start = _Proposal(key.child(0), zeros, zeros + 1, zeros + 2)  # Rejected.
    accepted = jax.lax.while_loop(lambda state: any_true(is_rejected(state)), propose, start)
    log_uniform = jnp.log1p(-_uniform(key.child(1)))
    boost = jnp.where((alpha >= 1) | (log_uniform == 0), 0, log_uniform * (1 / alpha))
    return (jnp.log(d) + jnp.log(accepted.cube)) + boost


def _sample_normal(key: TreeKey, c: Array) -> tuple[Array, Array]:
    """Samples normal numbers X until 1 + c X is positive; returns both."""

    def propose(state: tuple[TreeKey, Array, Array]) -> tuple[TreeKey, Array, Array]:
        key = state[0]
        normal = _normal(key.child(1))
        return tree_where(state[2] <= 0, (key.child(0), normal, 1 + normal * c), state)

    start = key, jnp.zeros_like(c), jnp.zeros_like(c) - 1
    return jax.lax.while_loop(lambda state: any_true(state[2] <= 0), propose, start)[1:]


def _uniform(key: TreeKey) -> Array:
    return key.uniform(jnp.zeros_like(key.words[0]))


def _normal(key: TreeKey) -> Array:
    lowest = np.nextafter(np.float32(-1), np.float32(0))
    uniform = jnp.maximum(lowest, _uniform(key) * (np.float32(1) - lowest) + lowest)
    return np.float32(np.sqrt(2)) * jax.lax.erf_inv(uniform)
