"""Packed game states: nodes store the exact state in fewer bits."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.errors import UserError
from dualmctx.types import Environment, GameState

Ranges = Mapping[str, tuple[int, int]]


class Packing(NamedTuple):
    """Two functions between `[B, ...]` states and their stored form.

    Attributes:
      pack: `(state) -> packed`; drops the observation.
      unpack: `(packed) -> state`, the original state with `None` as its observation.
    """

    pack: Callable[[GameState], Any]
    unpack: Callable[[Any], GameState]


def find_packing(env: Environment, compact_states: bool) -> Packing:
    """Returns the form in which nodes store the states of a game, without the observation."""
    if not compact_states:
        return Packing(lambda state: state.replace(observation=None), lambda packed: packed)
    example: Any = jax.eval_shape(lambda: env.init(jax.random.PRNGKey(0)))
    return pack_bits(example, getattr(env, "state_ranges", {}))


def pack_bits(example: GameState, ranges: Ranges) -> Packing:
    """Returns a packing that stores booleans as bits and small integers as a few bits.

    Args:
      example: an unbatched state, or its shapes.
      ranges: the lowest and highest value, both included, of integer arrays in the state, by their
        path such as `_x.board`. Integer arrays without a range are stored unchanged. Values outside
        their range are not restored correctly.

    Raises:
      ValueError: if a range does not name an integer array of the state.
    """
    example = example.replace(observation=None)
    structure = cast(Any, jax.tree.structure(example))
    leaves = cast("list[tuple[Any, Any]]", jax.tree_util.tree_leaves_with_path(example))
    fields = {jax.tree_util.keystr(path, simple=True, separator="."): x for path, x in leaves}
    for name in ranges:
        if name not in fields or not jnp.issubdtype(fields[name].dtype, jnp.integer):
            raise UserError(f"ranges has {name}; it must name an integer array of the state")
    codes = [_code(x, ranges.get(name)) for name, x in fields.items()]

    def pack(state: GameState) -> Any:
        arrays: list[Array] = jax.tree.leaves(state.replace(observation=None))
        return structure.unflatten([c.pack(x) for c, x in zip(codes, arrays, strict=True)])

    def unpack(packed: Any) -> GameState:
        arrays = structure.flatten_up_to(packed)
        return structure.unflatten([c.unpack(x) for c, x in zip(codes, arrays, strict=True)])

    return Packing(pack, unpack)


class _Code(NamedTuple):
    """The stored form of one array of the state; unchanged if `num_bits` is 0."""

    shape: tuple[int, ...]
    dtype: Any
    low: int
    num_bits: int

    def pack(self, x: Array) -> Array:
        """Converts `[B, ...]` to `[B, num_bits, bytes]`, one plane per bit."""
        if self.num_bits == 0:
            return x
        offset = (x.astype(jnp.int32) - self.low).reshape(x.shape[0], 1, -1)
        return jnp.packbits((offset >> self._bits()) & 1 == 1, axis=-1)

    def unpack(self, x: Array) -> Array:
        """Converts `[B, num_bits, bytes]` to `[B, ...]`."""
        if self.num_bits == 0:
            return x
        planes = jnp.unpackbits(x, axis=-1, count=math.prod(self.shape)).astype(jnp.int32)
        value = jnp.sum(planes << self._bits(), axis=-2) + self.low
        return value.astype(self.dtype).reshape(x.shape[0], *self.shape)

    def _bits(self) -> Array:
        return jnp.arange(self.num_bits, dtype=jnp.int32)[:, None]


def _code(x: Any, bounds: tuple[int, int] | None) -> _Code:
    if x.dtype == jnp.bool_:
        bounds = (0, 1)
    # Bit planes do not make a scalar smaller.
    if bounds is None or x.ndim == 0:
        return _Code(x.shape, x.dtype, 0, 0)
    low, high = bounds
    return _Code(x.shape, x.dtype, low, int(high - low).bit_length())
