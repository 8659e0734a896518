"""The moves of Go, as a fixed number of array operations.

A board of side S is int32 `[S²]`: 0 for an empty point, and otherwise the label of the chain of the
stone. The label is 1 plus the lowest point of the chain, positive for black and negative for white.
The representation and the results are those of pgx 2.6.0; the algorithms are our own. To find the
chains with one liberty, pgx compares every point with every chain, S² × S² comparisons, twice per
move. Here a capture compares every point with the four chains next to the move, and the legal
points come from sets of chains in bit words.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# Added to the weight 1 of a stone that has a liberty. The sum of the weights of a chain counts its
# stones in the low 16 bits, and those with a liberty in the high bits.
_LIBERTY = 1 << 16


class Placement(NamedTuple):
    """The result of placing a stone.

    Attributes:
      board: int32 `[S²]`, the board after captures.
      num_captured: int32 `[]`, the number of captured stones. As in pgx, a chain that is next to
        the new stone on several sides counts once per side.
      ko: int32 `[]`, the point at which the opponent may not play next, or -1.
    """

    board: jax.Array
    num_captured: jax.Array
    ko: jax.Array


def place_stone(board: jax.Array, point: jax.Array, sign: jax.Array, size: int) -> Placement:
    """Places a stone, removes the chains that it captures, and joins the chains that it connects.

    The move may be illegal. pgx then ends the game, and the last state has the board after the
    move: the stone replaces another one, and a chain without a liberty stays.

    Args:
      board: int32 `[S²]`.
      point: int32 `[]`, the point, or at least S² to place no stone.
      sign: int32 `[]`, 1 for black and -1 for white.
      size: S.
    """
    num_points = size * size
    next_to = jnp.asarray(_neighbour_table(size))[point]
    labels = jnp.where(next_to < 0, 0, board[next_to])
    is_mine, is_theirs = labels * sign > 0, labels * sign < 0
    is_here = jnp.arange(num_points, dtype=jnp.int32) == point
    has_liberty = _or_of_neighbours((board == 0) & ~is_here, size)

    in_chain = (board == labels[:, None]) & (labels != 0)[:, None]
    weights = 1 + _LIBERTY * has_liberty.astype(jnp.int32)
    totals = jnp.sum(jnp.where(in_chain, weights, 0), axis=1, dtype=jnp.int32)
    is_killed = is_theirs & (totals < _LIBERTY)
    num_captured = jnp.sum(jnp.where(is_killed, totals, 0), dtype=jnp.int32)
    is_removed = jnp.any(in_chain & is_killed[:, None], axis=0)

    may_be_ko = jnp.all((next_to < 0) | is_theirs) & (num_captured == 1)
    ko = jnp.where(may_be_ko, jnp.sum(jnp.where(is_killed, next_to, 0), dtype=jnp.int32), -1)

    lowest = jnp.min(jnp.where(is_mine, jnp.abs(labels), num_points))
    is_joined = is_here | jnp.any(in_chain & is_mine[:, None], axis=0)
    # If the point is occupied, the chain there may have the label of the new stone.
    is_joined |= board == (point + 1) * sign
    label = jnp.minimum(point + 1, lowest) * sign
    board = jnp.where(is_joined, label, jnp.where(is_removed, 0, board))
    return Placement(board, num_captured, ko)


def legal_points(board: jax.Array, sign: jax.Array, ko: jax.Array, size: int) -> jax.Array:
    """Returns bool `[S²]`, the points at which a player may place a stone.

    A point is legal if it is empty, is not the ko point, and is next to an empty point, to a chain
    of the player with another liberty, or to a chain of the opponent without another liberty.
    Positional superko is not part of it: as in pgx, such a move is legal and loses the game.

    Every empty point has the set of the chains next to it, a bit set of W = ceil(S² / 32) words. A
    chain that is in two of these sets has at least two liberties. The work is proportional to
    S² × W.

    Deviation: pgx tests for a single liberty by n Σx² = (Σx)² over the n liberties x of a chain, in
    int32. On 19×19, a chain with hundreds of liberties would pass as one with a single liberty if
    the difference were a multiple of 2^32. The test here is exact.

    Args:
      board: int32 `[S²]`.
      sign: int32 `[]`, 1 for black and -1 for white, of the player.
      ko: int32 `[]`, the ko point, or -1.
      size: S.
    """
    is_empty = board == 0
    index = jnp.abs(board) - 1
    words = np.arange(-(-size * size // 32), dtype=np.int32)
    bit = jnp.uint32(1) << (index & 31).astype(jnp.uint32)
    chain = jnp.where(index >> 5 == words[:, None], bit, jnp.uint32(0))
    chains_next_to = jnp.where(is_empty, _or_of_neighbours(chain, size), jnp.uint32(0))
    several = _in_two_sets(chains_next_to)
    is_safe = jnp.any((chain & several[:, None]) != 0, axis=0)
    helps = is_empty | (is_safe == (board * sign > 0))
    is_ko = jnp.arange(size * size, dtype=jnp.int32) == ko
    return is_empty & _or_of_neighbours(helps, size) & ~is_ko


def _in_two_sets(sets: jax.Array) -> jax.Array:
    """Returns uint32 `[W]`, the elements that are in at least two of N sets, uint32 `[W, N]`."""

    def merge(a: tuple, b: tuple) -> tuple[jax.Array, jax.Array]:
        return a[0] | b[0], a[1] | b[1] | (a[0] & b[0])

    none = np.uint32(0)
    return lax.reduce((sets, jnp.zeros_like(sets)), (none, none), merge, (1,))[1]


def _or_of_neighbours(x: jax.Array, size: int) -> jax.Array:
    """Returns the bitwise or of the up to four neighbours of each point of `[..., S²]`."""
    grid = x.reshape(*x.shape[:-1], size, size)
    zero, here = jnp.zeros((), x.dtype), (0, 0, 0)
    lead = [here] * (grid.ndim - 2)
    down, up = (lax.pad(grid, zero, [*lead, (k, -k, 0), here]) for k in (1, -1))
    right, left = (lax.pad(grid, zero, [*lead, here, (k, -k, 0)]) for k in (1, -1))
    return ((down | up) | (right | left)).reshape(x.shape)


def _neighbour_table(size: int) -> np.ndarray:
    """Returns int32 `[S² + 1, 4]`: the neighbours of each point, -1 off the board and for S²."""
    points = np.pad(np.arange(size**2).reshape(size, size), 1, constant_values=-1)
    sides = (points[:-2, 1:-1], points[2:, 1:-1], points[1:-1, :-2], points[1:-1, 2:])
    table = np.stack(sides, axis=-1).reshape(-1, 4)
    return np.concatenate([table, np.full((1, 4), -1)]).astype(np.int32)
