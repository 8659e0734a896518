"""Area scoring of Go boards as bit operations on rows.

The area of a colour is its stones, and the empty points that no path of empty points connects to a
stone of the other colour. This is the definition of pgx 2.6.0. It equals Tromp and Taylor's
definition, except that all points of an empty board count for both colours. pgx's loop moves one
point per iteration until nothing changes. On a GPU, the host reads the condition of such a loop
back from the device in every iteration.

Here a row of the board is one word of bits. Two functions find the connected points and return the
same result:

- `reach_by_loop`, used on CPUs. An iteration moves one row up and down, and along whole rows.
  Boards that need no score have no seeds, so a batch without ended games takes no iteration.
- `reach_by_squaring`, used on other platforms. The horizontal runs of empty points are the nodes of
  a graph with R = S ceil(S / 2) nodes. Each squaring of its reachability relation doubles the
  length of the paths that it covers. ceil(log2(R)) squarings are enough: 6 for S = 9, 8 for S = 19.

S is the side of the board, at most 31.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_ZERO = np.uint32(0)
_ONE = np.uint32(1)


def count_area(board: jax.Array, size: int, needed: jax.Array) -> jax.Array:
    """Returns the area of both colours, int32 `[2]`, black first; undefined if it is not `needed`.

    All points of an empty board count for both colours.

    Args:
      board: int32 `[S²]`, positive for black stones, negative for white stones, 0 for empty points.
      size: S.
      needed: bool `[]`.
    """
    stones = _pack(jnp.stack([board > 0, board < 0]), size)
    free = np.uint32(2**size - 1) & ~(stones[0] | stones[1])
    # The points that a colour does not own are those that the other colour reaches.
    others = jnp.where(needed, stones[::-1], _ZERO)
    seeds = (_above_or_below(others) | (others << _ONE) | (others >> _ONE)) & free
    reached = lax.platform_dependent(free, seeds, cpu=reach_by_loop, default=reach_by_squaring)
    owned = lax.population_count(stones | (free & ~reached))
    return jnp.sum(owned, axis=-1, dtype=jnp.uint32).astype(jnp.int32)


def reach_by_loop(free: jax.Array, seeds: jax.Array) -> jax.Array:
    """Returns uint32 `[2, S]`, the free points that are connected to a seed of each set.

    Args:
      free: uint32 `[S]`, one word per row; bit c is set if the point in column c is free.
      seeds: uint32 `[2, S]`, two sets of free points.
    """

    def grow(reached: jax.Array) -> jax.Array:
        return _fill_rows(reached | (_above_or_below(reached) & free), free)

    def has_changed(pair: tuple[jax.Array, jax.Array]) -> jax.Array:
        return jnp.any(pair[0] != pair[1])

    start = grow(seeds), seeds
    return lax.while_loop(has_changed, lambda pair: (grow(pair[0]), pair[0]), start)[0]


def reach_by_squaring(free: jax.Array, seeds: jax.Array) -> jax.Array:
    """Returns the same as `reach_by_loop`, with a fixed number of array operations and no loop."""
    size = free.shape[-1]
    runs = _find_runs(free)
    per_row = runs.shape[1]
    num = size * per_row
    links = _link_neighbours(runs)
    # After i squarings, the relation covers paths of up to 2^i steps; R - 1 steps are enough.
    for _ in range((num - 1).bit_length()):
        joined = jnp.where(_unpack_bits(links, num), links[:, None, :], _ZERO)
        links = _or_reduce(joined, axis=2)
    flat = runs.reshape(num)
    is_seed = (jnp.repeat(seeds, per_row, axis=-1) & flat) != 0
    is_reached = jnp.any(_unpack_bits(links, num) & is_seed[:, None], axis=-1)
    points = jnp.where(is_reached, flat, _ZERO)
    return _or_reduce(points.reshape(2, size, per_row), axis=2)


def _pack(points: jax.Array, size: int) -> jax.Array:
    """Packs bool `[..., S²]` into uint32 `[..., S]`, one word per row."""
    rows = points.reshape(*points.shape[:-1], size, size).astype(jnp.uint32)
    return jnp.sum(rows << np.arange(size, dtype=np.uint32), axis=-1, dtype=jnp.uint32)


def _above_or_below(rows: jax.Array) -> jax.Array:
    """Returns `[..., S]` rows, each the union of the two rows next to it."""
    same = [(0, 0, 0)] * (rows.ndim - 1)
    return lax.pad(rows, _ZERO, [*same, (1, -1, 0)]) | lax.pad(rows, _ZERO, [*same, (-1, 1, 0)])


def _fill_rows(reached: jax.Array, free: jax.Array) -> jax.Array:
    """Extends `reached` along the free points of each row."""
    # The carry of the sum passes from a reached point to the high end of its run of free points.
    filled = ((free + reached) ^ free) & free | reached
    open_points, distance = free, 1
    while distance < free.shape[-1]:
        filled |= open_points & (filled >> np.uint32(distance))
        open_points &= open_points >> np.uint32(distance)
        distance *= 2
    return filled


def _find_runs(free: jax.Array) -> jax.Array:
    """Returns the runs of free points of rows `[S]`: uint32 `[S, ceil(S / 2)]`, 0 if unused."""
    runs = []
    for _ in range((free.shape[-1] + 1) // 2):
        lowest_bit = free & (~free + _ONE)
        # The carry of the sum clears the lowest run.
        runs.append(free & ~(free + lowest_bit))
        free &= free + lowest_bit
    return jnp.stack(runs, axis=-1)


def _link_neighbours(runs: jax.Array) -> jax.Array:
    """Returns the relation "the same run, or connected from row to row" as uint32 `[W, R]`.

    W is ceil(R / 32). Bit b of word w of a run is set if the run is related to run 32 w + b.
    """
    size, per_row = runs.shape
    num = size * per_row
    identity = np.packbits(np.eye(num, -(-num // 32) * 32, dtype=bool), axis=1, bitorder="little")
    bits = identity.view("<u4").T.reshape(-1, size, per_row)
    links = jnp.asarray(bits)
    for step in (1, -1):
        other = lax.pad(runs, _ZERO, [(step, -step, 0), (0, 0, 0)])
        other_bits = lax.pad(jnp.asarray(bits), _ZERO, [(0, 0, 0), (step, -step, 0), (0, 0, 0)])
        touches = (runs[:, :, None] & other[:, None, :]) != 0
        joined = jnp.where(touches, other_bits[:, :, None, :], _ZERO)
        links |= _or_reduce(joined, axis=3)
    return links.reshape(-1, num)


def _unpack_bits(links: jax.Array, num: int) -> jax.Array:
    """Returns a relation of R runs, uint32 `[W, R]`, as bool `[R, R]`."""
    index = np.arange(num, dtype=np.uint32)
    return ((links[index // 32] >> (index % 32)[:, None]) & _ONE) != 0


def _or_reduce(x: jax.Array, axis: int) -> jax.Array:
    return lax.reduce(x, _ZERO, lax.bitwise_or, (axis,))
