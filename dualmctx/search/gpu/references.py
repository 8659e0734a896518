"""References: the arrays of one tree in the memory of a kernel.

A kernel runs the functions of this package on one tree of the batch. In place of each `[B, N, ...]`
array it passes a `TreeRef`, which reads and writes the memory of the array at the positions of that
tree. The functions of `arrays` accept both. A rule or statistic can therefore run in a kernel if it

- reads the fields of a `Node` only, if it is a rule; a statistic reads and writes the arrays of the
  tree by the functions of `arrays` and `tree` only;
- samples by the functions of `keys` only;
- accepts rows that are wider than the number of actions. The length of a row in a kernel is a power
  of two; the entries past the last action are those of illegal, unvisited actions. `mask_lanes`
  replaces them where that is not neutral;
- uses operations that Triton has: elementwise ones, reductions, cumulative sums, `cond` and loops,
  but no indexing of values, no sorting, and no `jnp.any` or `jnp.all` (see `any_true`);
- does not depend on NaN in a maximum or minimum, which ignore it in a kernel;
- stores numbers, not bools, in arrays with at most one axis of rows and one of pairs.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.search.arrays import Reference, lane_index, num_lanes


@dataclasses.dataclass(frozen=True, eq=False)
class TreeRef(Reference):
    """One tree's part of a `[B, N, ...]` array in memory.

    It is a pytree without leaves, so that records of arrays may hold references in a loop.

    Attributes:
      ref: the whole array, flattened.
      start: scalar int32, the position of the first entry of the tree.
      shape: `(1, N, ...)`, the shape of the array of a batch of one; at most one axis of rows, and
        at most one axis of pairs, of length 2, after it.
      fill: the value that a read returns past the end of a row.
      interpret: whether the kernel is interpreted, which needs no barriers.
    """

    ref: Any
    start: Array
    shape: tuple[int, ...]
    fill: float = 0
    interpret: bool = False

    def __eq__(self, other: object) -> bool:
        """Compares the memory and the shape; a loop requires that its carry does not change."""
        return isinstance(other, TreeRef) and self.ref is other.ref and self.shape == other.shape

    def __hash__(self) -> int:
        """Hashes the memory and the shape."""
        return hash((id(self.ref), self.shape))

    @property
    def dtype(self) -> Any:
        """The type of the entries."""
        return self.ref.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def reshape(self, *shape: Any) -> Any:
        """Returns a reference to the same memory by another shape."""
        new = shape[0] if isinstance(shape[0], tuple) else shape
        return dataclasses.replace(self, shape=new)

    def gather(self, index: Array | int, part: int | None = None) -> Array:
        """Reads rows, or one part of rows of pairs.

        Args:
          index: `[1]` or `[1, K]` int32, or an int.
          part: 0 or 1 for an array of pairs, `None` for other arrays.

        Returns:
          `[1]` or `[1, K]` entries, or rows with an additional axis.
        """
        from jax.experimental.pallas import triton

        position, is_inside = self._locate(index, part)
        if is_inside is None:
            return triton.load(self.ref.at[position])
        other = jnp.asarray(self.fill, self.dtype)
        return triton.load(self.ref.at[position], mask=is_inside, other=other)

    def scatter(
        self, index: Array | int, value: Array, where: Array | bool = True, part: int | None = None
    ) -> Any:
        """Writes rows, or one part of rows of pairs, where a mask is true; returns the reference.

        The arguments have the shapes of `gather`'s argument and result; the mask has the shape of
        the index.
        """
        from jax.experimental.pallas import triton

        position, mask = self._locate(index, part)
        if where is not True:
            where = jnp.reshape(where, jnp.shape(where) + (1,) * (position.ndim - np.ndim(where)))
            where = jnp.broadcast_to(where, position.shape)
            mask = where if mask is None else mask & where
        value = jnp.broadcast_to(value.astype(self.dtype), position.shape)
        if self.interpret and mask is not None:
            # The interpreter writes old values where the mask is false, which conflicts with other
            # writes to the same position. It drops writes out of bounds.
            position, mask = jnp.where(mask, position, self.ref.shape[0]), None
        triton.store(self.ref.at[position], value, mask=mask)
        return self

    def synchronize(self) -> None:
        """Makes all writes so far visible to the reads that follow."""
        from jax.experimental.pallas import triton

        if not self.interpret:
            triton.debug_barrier()

    def _locate(self, index: Array | int, part: int | None) -> tuple[Array, Array | None]:
        """Returns the positions of rows, and which are inside; `None` if all are."""
        index = jnp.full((1,), index, jnp.int32) if isinstance(index, int) else index
        index = index.astype(jnp.int32)
        parts, row_shape = 1, self.shape[2:]
        if part is not None:
            parts, row_shape = 2, row_shape[:-1]
        if not row_shape:
            return self.start + index * parts + (part or 0), None
        (length,) = row_shape
        shape = (*index.shape, num_lanes(length))
        lane = lane_index(shape)
        position = index[..., None] * length + lane
        is_inside = None if length == num_lanes(length) else lane < length
        return self.start + position * parts + (part or 0), is_inside


jax.tree_util.register_pytree_node(TreeRef, lambda x: ((), x), lambda x, _: x)


def with_fill(array: Any, fill: float) -> Any:
    """Returns a reference with other entries past the end of its rows."""
    return dataclasses.replace(array, fill=fill)
