"""Gathers and scatters in `[B, N, ...]` arrays, and other small array functions."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

# The largest number of entries that int32 indices can address in a flattened array.
_MAX_FLAT = 2**31 - 1


def _locate(array: Array, index: Array) -> tuple[Any, Any, Array]:
    """Locates `[B]` or `[B, K]` indices in a `[B, N, ...]` array.

    Where int32 allows it, the two leading axes are flattened: one index is cheaper than a pair.

    Returns:
      The `at` property of the array, flattened or not; the indices to use with it; and as many
      distinct out-of-bounds indices, for writes that are to be dropped.
    """
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

    A Python int reads the same index in all trees, as a slice that needs no copy.
    """
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


def pair(first: Array, second: Array) -> Array:
    """Stacks two arrays along a new last axis, with the dtype of the second."""
    return jnp.stack([first.astype(second.dtype), second], axis=-1)


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
