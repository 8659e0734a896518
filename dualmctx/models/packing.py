"""Game states in few bits: what a node stores of a state, exactly and in less memory."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

Ranges = Mapping[str, tuple[int, int]]


class Packing(NamedTuple):
    """A pair of functions between `[B, ...]` states and what nodes store of them.

    Attributes:
      pack: `(state) -> packed`, without the observation.
      unpack: `(packed) -> state`, equal to what was packed, its observation `None`.
    """

    pack: Any
    unpack: Any


def drop_observation() -> Packing:
    """Makes a packing that leaves out the observation, which `env.step` makes anew, only."""
    return Packing(lambda state: state.replace(observation=None), lambda state: state)


def pack_bits(example: Any, ranges: Ranges) -> Packing:
    """Makes a packing of truth values into bits, and of small whole numbers into a few.

    Args:
      example: an unbatched state, or its shapes.
      ranges: lowest and highest value, both included, of arrays of whole numbers in the state, by
        their place such as `_x.board`; what is not named stays as it is, unless it is boolean.

    Returns:
      The packing; numbers outside of their range would come out wrong.

    Raises:
      ValueError: when a range names no array of whole numbers in the state, in one line.
    """
    example = example.replace(observation=None)
    leaves, structure = jax.tree_util.tree_flatten_with_path(example)
    fields = {jax.tree_util.keystr(path, simple=True, separator="."): x for path, x in leaves}
    for name in ranges:
        if name not in fields or not jnp.issubdtype(fields[name].dtype, jnp.integer):
            raise ValueError(f"ranges has {name}; it must name whole numbers in the state")
    codes = [_code(x, ranges.get(name)) for name, x in fields.items()]

    def pack(state: Any) -> Any:
        arrays = jax.tree.leaves(state.replace(observation=None))
        return structure.unflatten([c.pack(x) for c, x in zip(codes, arrays, strict=True)])

    def unpack(packed: Any) -> Any:
        arrays = structure.flatten_up_to(packed)
        return structure.unflatten([c.unpack(x) for c, x in zip(codes, arrays, strict=True)])

    return Packing(pack, unpack)


class _Code(NamedTuple):
    """How one array of the state is stored: as it is if `num_bits` is 0."""

    shape: tuple[int, ...]
    dtype: Any
    low: int
    num_bits: int

    def pack(self, x: chex.Array) -> chex.Array:
        """Turns `[B, ...]` into `[B, num_bits, bytes]`, a plane for each bit."""
        if self.num_bits == 0:
            return x
        offset = (x.astype(jnp.int32) - self.low).reshape(x.shape[0], 1, -1)
        bits = jnp.arange(self.num_bits, dtype=jnp.int32)[:, None]
        return jnp.packbits((offset >> bits) & 1 == 1, axis=-1)

    def unpack(self, x: chex.Array) -> chex.Array:
        if self.num_bits == 0:
            return x
        size = 1
        for length in self.shape:
            size *= length
        planes = jnp.unpackbits(x, axis=-1, count=size).astype(jnp.int32)
        bits = jnp.arange(self.num_bits, dtype=jnp.int32)[:, None]
        value = jnp.sum(planes << bits, axis=-2) + self.low
        return value.astype(self.dtype).reshape(x.shape[0], *self.shape)


def _code(x: Any, bounds: tuple[int, int] | None) -> _Code:
    if x.dtype == jnp.bool_:
        bounds = (0, 1)
    # A single number takes no less in planes.
    if bounds is None or x.ndim == 0:
        return _Code(x.shape, x.dtype, 0, 0)
    low, high = bounds
    return _Code(x.shape, x.dtype, low, int(high - low).bit_length())
