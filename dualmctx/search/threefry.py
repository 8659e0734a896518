"""The generator of `jax.random`, Threefry, in plain integer operations.

A kernel samples with it, because `jax.random` cannot be called there. The numbers are those of
`jax.random` with its default settings; `can_sample` checks this.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", Threefry-2x32 with 20
rounds; the derivation of keys and numbers from counters is that of `jax.random`.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_FRACTION_BITS = 23


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TreeKey:
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
    name = jax.random.key_impl(rng_key) if is_typed else jax.config.jax_default_prng_impl
    return str(name) == "threefry2x32" and bool(jax.config.jax_threefry_partitionable)
