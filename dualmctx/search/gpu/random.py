"""Random numbers in a kernel: the generator of `jax.random`, Threefry, and its gamma variates.

A kernel cannot call `jax.random`. The numbers here are those of `jax.random` with its default
settings; `can_sample` checks this.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", Threefry-2x32 with 20
rounds. Marsaglia and Tsang 2000, "A simple method for generating gamma variables". The derivation
of keys and numbers from counters, and the method for alpha < 1 in log space, are those of
`jax.random`.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.search.arrays import any_true, tree_where
from dualmctx.search.keys import KernelKey

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_FRACTION_BITS = 23
_CONFIG: Any = jax.config  # Its settings have no types.


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TreeKey(KernelKey):
    """A key in a kernel: the key of a whole batch, or of one element.

    Attributes:
      words: two `[1]` uint32 arrays, the key; `[1, L]` for a key per entry of a row.
      element: uint32 of the same shape, the position of the kernel's tree in the batch.
      is_per_element: whether the key belongs to the tree and not to the batch.
    """

    words: tuple[Array, Array]
    element: Array
    is_per_element: bool = dataclasses.field(metadata={"static": True})

    def child(self, number: Any) -> Any:
        """Returns key `number` of `jax.random.split`; equal to `jax.random.fold_in` as well."""
        number = jnp.broadcast_to(jnp.asarray(number).astype(jnp.uint32), self.words[0].shape)
        words = threefry(self.words, (jnp.zeros_like(number), number))
        return dataclasses.replace(self, words=words)

    def lanes(self, numbers: Array) -> Any:
        """Returns the keys of `[1, L]` numbers, as `child` returns one."""
        wide = jax.tree.map(lambda x: jnp.broadcast_to(x[:, None], numbers.shape), self)
        return wide.child(numbers)

    def of_element(self) -> Any:
        """Returns the key of the kernel's tree; splits the key of the batch if necessary."""
        if self.is_per_element:
            return self
        return dataclasses.replace(self.child(self.element), is_per_element=True)

    def uniform(self, counters: Array) -> Array:
        """Returns `[1]` or `[1, L]` float32 in [0, 1), the numbers of `jax.random.uniform`.

        Args:
          counters: uint32, the positions of the numbers in the array that `jax.random` would fill.
        """
        first, second = self.words
        if counters.ndim > first.ndim:
            first, second = first[:, None], second[:, None]
        first = jnp.broadcast_to(first, counters.shape)
        second = jnp.broadcast_to(second, counters.shape)
        one, other = threefry((first, second), (jnp.zeros_like(counters), counters))
        fraction = (one ^ other) >> np.uint32(32 - _FRACTION_BITS)
        return fraction.astype(jnp.int32).astype(jnp.float32) * np.float32(2.0**-_FRACTION_BITS)


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Returns the two words of Threefry-2x32 for a key and a counter; uint32 of one shape."""
    keys = (*key, key[0] ^ key[1] ^ _PARITY)
    first, second = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            first = first + second
            rotated = (second << np.uint32(rotation)) | (second >> np.uint32(32 - rotation))
            second = first ^ rotated
        first = first + keys[(block + 1) % 3]
        second = second + keys[(block + 2) % 3] + np.uint32(block + 1)
    return first, second


def can_sample(rng_key: Array) -> bool:
    """Returns whether a kernel can sample the numbers of `jax.random` with this key."""
    is_typed = jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key)
    name = jax.random.key_impl(rng_key) if is_typed else _CONFIG.jax_default_prng_impl
    return str(name) == "threefry2x32" and bool(_CONFIG.jax_threefry_partitionable)


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
