"""Gathers and scatters in `[B, N, ...]` arrays, and other small array functions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

# The largest number of entries that int32 indices can address in a flattened array.
_MAX_FLAT = 2**31 - 1


class Reference:
    """One tree's part of a `[B, N, ...]` array in the memory of a kernel, in place of the array.

    The functions of this module accept both; see `gpu.references`. B is 1, and rows of actions are
    padded with `fill` to `num_lanes`.
    """

    shape: tuple[int, ...]

    def gather(self, index: Array | int, part: int | None = None) -> Array:
        """Reads rows, or one part of rows of pairs."""
        raise NotImplementedError

    def scatter(
        self, index: Array | int, value: Array, where: Array | bool = True, part: int | None = None
    ) -> Any:
        """Writes rows, or one part of rows of pairs, where a mask is true; returns itself."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Makes all writes so far visible to the reads that follow."""
        raise NotImplementedError


def is_reference(array: Any) -> bool:
    """Returns whether an array is a reference; for `jax.tree.map`, which sees no leaf in one."""
    return isinstance(array, Reference)


def num_lanes(length: int) -> int:
    """Returns the length of a row in a kernel: the next power of two."""
    return 1 << (length - 1).bit_length()


def lane_index(shape: tuple[int, ...], dtype: Any = jnp.int32, axis: int = -1) -> Array:
    """Returns an array of the given shape with the index of each entry along an axis."""
    return jax.lax.broadcasted_iota(dtype, shape, axis % len(shape))


def _locate(array: Array, index: Array) -> tuple[Any, Any, Array]:
    """Locates `[B]` or `[B, K]` indices in a `[B, N, ...]` array.

    Where int32 allows it, the two leading axes are flattened: one index is cheaper than a pair.

    Returns:
      The `at` property of the array, flattened or not; the indices to use with it; and as many
      distinct out-of-bounds indices, for writes that are to be dropped.
    """
    array = jnp.asarray(array)  # Trees that were read from the device are NumPy's.
    index = index.astype(jnp.int32)
    batch_size, num_nodes = array.shape[:2]
    batch = jnp.arange(batch_size, dtype=jnp.int32).reshape((-1,) + (1,) * (index.ndim - 1))
    # All indices differ, because `batched_scatter` declares `unique_indices`.
    outside = jnp.arange(index.size, dtype=jnp.int32).reshape(index.shape)
    if batch_size * num_nodes + index.size > _MAX_FLAT:
        return array.at, (batch, index), num_nodes + outside
    flat = array.reshape(batch_size * num_nodes, *array.shape[2:])
    return flat.at, batch * num_nodes + index, batch_size * num_nodes + outside


def batched_gather(array: Array, index: Array | int) -> Array:
    """Reads `[B, N, ...]` at `[B]` or `[B, K]` indices, giving `[B, ...]` or `[B, K, ...]`.

    A Python int reads the same index in all trees, as a slice that needs no copy. In a kernel the
    array is a `Reference`, and rows of actions are padded.
    """
    if isinstance(array, Reference):
        return array.gather(index)
    if isinstance(index, int):
        return array[:, index]
    at, where, _ = _locate(array, index)
    if index.size == 1 and not isinstance(where, tuple):
        # XLA would turn a single read into a slice and fuse it with a later write, which would copy
        # the whole array.
        where = jnp.repeat(where.reshape(1), 2)
    # Indices are valid by construction. This mode saves a clamp and a select per access.
    found = at[where].get(mode="promise_in_bounds")
    return found[: index.shape[0]].reshape(*index.shape, *array.shape[2:])


def batched_scatter(array: Array, index: Array, value: Array, where: Array | bool = True) -> Array:
    """Writes values into a `[B, N, ...]` array. Inside a jitted loop the write is in place.

    Args:
      array: `[B, N, ...]`.
      index: `[B]` or `[B, K]` int32, the positions to write; distinct within each row.
      value: `[B, ...]` or `[B, K, ...]`.
      where: bool, shaped like `index`; false for values that are not written.

    Returns:
      The array with the values written.
    """
    if isinstance(array, Reference):
        return array.scatter(index, value, where)
    at, inside, outside = _locate(array, index)
    if isinstance(inside, tuple):
        inside = inside[0], jnp.where(where, inside[1], outside)
    else:
        inside = jnp.where(where, inside, outside)
    if index.size == 1 and not isinstance(inside, tuple):
        # As in `batched_gather`; the second write is dropped.
        inside = jnp.concatenate([inside.reshape(1), outside.reshape(1) + 1])
        value = jnp.repeat(value.reshape(1, *array.shape[2:]), 2, axis=0)
    new = at[inside].set(value.astype(array.dtype), mode="drop", unique_indices=True)
    return new.reshape(array.shape)


def gather_pair(array: Array, index: Array | int) -> tuple[Array, Array]:
    """Reads a `[B, N, ..., 2]` array as `batched_gather` does; returns both parts."""
    if isinstance(array, Reference):
        return array.gather(index, 0), array.gather(index, 1)
    found = batched_gather(array, index)
    return found[..., 0], found[..., 1]


def scatter_pair(
    array: Array, index: Array, first: Array, second: Array, where: Array | bool = True
) -> Array:
    """Writes both parts of a `[B, N, ..., 2]` array as `batched_scatter` does."""
    if isinstance(array, Reference):
        return array.scatter(index, first, where, 0).scatter(index, second, where, 1)
    return batched_scatter(array, index, pair(first, second), where)


def write_slot(array: Array, slot: Array | int, row: Array) -> Array:
    """Writes `[B, ...]` rows at the same scalar slot of all trees, as a slice update in place."""
    if isinstance(array, Reference):
        return array.scatter(jnp.full((1,), slot, jnp.int32), row)
    if not isinstance(slot, int):
        # Unsigned indices need no test for negative ones, which would keep a copy of the counter of
        # the simulations.
        slot = slot.astype(jnp.uint32)
    return jax.lax.dynamic_update_slice_in_dim(
        array, row[:, None].astype(array.dtype), slot, axis=1
    )


def write_slot_pair(array: Array, slot: Array | int, first: Array, second: Array) -> Array:
    """Writes `[B]` pairs at the same scalar slot of all trees of a `[B, N, 2]` array."""
    if isinstance(array, Reference):
        return scatter_pair(array, jnp.full((1,), slot, jnp.int32), first, second)
    return write_slot(array, slot, pair(first, second))


def row_length(array: Array) -> int:
    """Returns the length of the rows that `batched_gather` reads from a `[B, N, A]` array."""
    length = array.shape[2]
    return num_lanes(length) if isinstance(array, Reference) else length


def mask_lanes(row: Array, length: int, fill: Any) -> Array:
    """Replaces the entries of a `[B, ...]` row past its length, which only kernels have."""
    if row.shape[-1] == length:
        return row
    lane = lane_index(row.shape)
    return jnp.where(lane < length, row, jnp.asarray(fill, row.dtype))


def batched_add(array: Array, index: Array, value: Array, where: Array) -> Array:
    """Adds `[B, K]` values to a `[B, N]` array; indices may repeat."""
    if isinstance(array, Reference):
        is_same = (index[:, :, None] == index[:, None, :]) & where[:, None, :]
        total = jnp.sum(jnp.where(is_same, value[:, None, :], 0), axis=-1)
        is_first = where & ~has_earlier(is_same)
        return array.scatter(index, array.gather(index) + total, is_first)
    batch = jnp.arange(array.shape[0])[:, None]
    target = jnp.where(where, index, array.shape[1])
    return array.at[batch, target].add(value, mode="drop")


def batched_max(array: Array, index: Array, value: Array, where: Array) -> Array:
    """Raises entries of a `[B, N]` array to a value; a repeated index must have equal values."""
    if isinstance(array, Reference):
        return array.scatter(index, jnp.maximum(array.gather(index), value), where)
    batch = jnp.arange(array.shape[0])[:, None]
    target = jnp.where(where, index, array.shape[1])
    return array.at[batch, target].max(value, mode="drop")


def has_earlier(is_same: Array) -> Array:
    """Returns `[B, K]`: for row i of `[B, K, K]`, whether any column before i is true."""
    is_before = lane_index(is_same.shape) < lane_index(is_same.shape, axis=1)
    return jnp.sum((is_same & is_before).astype(jnp.int32), axis=-1) > 0


def read_edges(array: Array, node: Array) -> Callable[[Array], Array]:
    """Returns a function that reads a `[B, N, A]` array at `[B]` actions of `[B]` nodes.

    A kernel reads the row at once, so that the read does not have to wait for the choice of the
    action.
    """
    if isinstance(array, Reference):
        row = batched_gather(array, node).astype(jnp.int32)
        return lambda action: jnp.sum(
            jnp.where(lane_index(row.shape) == action[:, None], row, 0), axis=-1
        )
    return lambda action: batched_gather(by_edge(array), node * array.shape[2] + action)


def take_entry(row: Array, index: Array) -> Array:
    """Reads `[B, L]` values at `[B]` indices; a batch of one, as in a kernel, needs no gather."""
    if row.shape[0] == 1:
        return jnp.sum(jnp.where(lane_index(row.shape) == index[:, None], row, 0), axis=-1)
    return jnp.take_along_axis(row, index[:, None], axis=-1)[:, 0]


def any_true(mask: Array) -> Array:
    """Returns whether any entry of a mask is true, as `jnp.any`, which kernels do not have."""
    return jnp.max(mask.astype(jnp.int32)) > 0


def synchronize(array: Array) -> None:
    """Makes the writes of a kernel visible to its later reads; does nothing outside of kernels."""
    if isinstance(array, Reference):
        array.synchronize()


def pair(first: Array, second: Array) -> Array:
    """Stacks two arrays along a new last axis, with the dtype to which JAX promotes both."""
    dtype = jnp.promote_types(first.dtype, second.dtype)
    return jnp.stack([first.astype(dtype), second.astype(dtype)], axis=-1)


def by_edge(array: Array) -> Array:
    """Reshapes `[B, N, A]` to `[B, N·A]`, so that one index addresses an edge."""
    batch_size, num_nodes, num_actions = array.shape
    return array.reshape(batch_size, num_nodes * num_actions)


def smallest_type(largest: int) -> Any:
    """Returns int16 if it can represent `largest`, otherwise int32."""
    return jnp.int16 if largest <= jnp.iinfo(jnp.int16).max else jnp.int32


def expand_mask(mask: Array, array: Array) -> Array:
    """Adds trailing axes to a `[B]` or `[B, N]` mask, so that it broadcasts against `array`."""
    return mask.reshape(mask.shape + (1,) * (array.ndim - mask.ndim))


def tree_where(mask: Array, one: Any, other: Any) -> Any:
    """Selects rows of `[B, ...]` arrays: from `one` where a `[B]` mask is true, else `other`."""
    return jax.tree.map(lambda x, y: jnp.where(expand_mask(mask, x), x, y), one, other)
