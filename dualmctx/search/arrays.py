"""Reading and writing single elements of arrays with an axis of trees and one of nodes."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

# Beyond this many positions an int32 cannot index a flattened array.
_MAX_FLAT = 2**31 - 1


def _locate(array: chex.Array, index: chex.Array) -> tuple[Any, Any, chex.Array]:
    """Returns what to index of a `[B, N, ...]` array, with what, and an index outside of it.

    One index into the flattened array is cheaper to compute than a pair.
    """
    batch_size, num_nodes = array.shape[:2]
    batch = jnp.arange(batch_size, dtype=jnp.int32).reshape((-1,) + (1,) * (index.ndim - 1))
    # Different indices, as `batched_scatter` promises that no two are the same.
    outside = jnp.arange(index.size, dtype=jnp.int32).reshape(index.shape)
    if batch_size * num_nodes + index.size > _MAX_FLAT:
        return array.at, (batch, index), num_nodes + outside
    flat = array.reshape(batch_size * num_nodes, *array.shape[2:])
    return flat.at, batch * num_nodes + index, batch_size * num_nodes + outside


def batched_gather(array: chex.Array, index: chex.Array | int) -> chex.Array:
    """Reads `[B, N, ...]` at `[B]` or `[B, K]` indices, giving `[B, ...]` or `[B, K, ...]`.

    One index for all is a slice, which needs no copy.
    """
    if isinstance(index, int):
        return array[:, index]
    at, where, _ = _locate(array, index)
    if index.size == 1 and not isinstance(where, tuple):
        # XLA would make slices of single reads and fuse them with writes, and so copy the array.
        where = jnp.repeat(where.reshape(1), 2)
    # Indices are valid by construction; promising it saves a clamp and a select an access.
    found = at[where].get(mode="promise_in_bounds")
    return found[: index.shape[0]].reshape(*index.shape, *array.shape[2:])


def batched_scatter(
    array: chex.Array, index: chex.Array, value: chex.Array, where: chex.Array | bool = True
) -> chex.Array:
    """Writes values into `[B, N, ...]`; inside a jitted loop in place.

    Args:
      array: `[B, N, ...]`.
      index: `[B]` or `[B, K]` int32, where to write; different ones in each row.
      value: `[B, ...]` or `[B, K, ...]`.
      where: bool of the shape of `index`, false for what is not written.

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


def pair(first: chex.Array, second: chex.Array) -> chex.Array:
    """Stacks two arrays along a new last axis, in the second one's type."""
    return jnp.stack([first.astype(second.dtype), second], axis=-1)


def by_edge(array: chex.Array) -> chex.Array:
    """Views `[B, N, A]` as `[B, N·A]`, to gather and scatter single edges."""
    batch_size, num_nodes, num_actions = array.shape
    return array.reshape(batch_size, num_nodes * num_actions)


def smallest_type(largest: int) -> Any:
    """Returns the smaller of int16 and int32 that holds numbers up to `largest`."""
    return jnp.int16 if largest <= jnp.iinfo(jnp.int16).max else jnp.int32


def expand_mask(mask: chex.Array, array: chex.Array) -> chex.Array:
    """Returns a `[B]` or `[B, N]` mask with as many axes as a `[B, ...]` or `[B, N, ...]` array."""
    return mask.reshape(mask.shape + (1,) * (array.ndim - mask.ndim))


def tree_where(mask: chex.Array, one: Any, other: Any) -> Any:
    """Takes elements of `[B, ...]` arrays: where a `[B]` mask is true from `one`, else `other`."""
    return jax.tree.map(lambda x, y: jnp.where(expand_mask(mask, x), x, y), one, other)
