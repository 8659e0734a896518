"""Sums over many paths of a tree, as backups from many leaves at once need them."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_add, batched_max
from dualmctx.search.climb import Level, climb
from dualmctx.search.tree import Tree


class Sums(NamedTuple):
    """Sums over the paths through each node, `[B, N]` each; for `heights` the maximum."""

    returns: Array
    visits: Array
    passes: Array
    heights: Array


def sum_paths(
    tree: Tree,
    leaves: Array,
    values: Array,
    is_active: Array,
    sums: Sums,
    *,
    window: int | None,
    with_rewards: bool,
) -> Sums:
    """Climbs from all leaves at once and adds, for each node, the paths through it.

    Args:
      tree: the trees.
      leaves: `[B, K]` int32, the nodes at which the paths start.
      values: `[B, K]` the values at these nodes.
      is_active: `[B, K]` bool, false for leaves to ignore.
      sums: the sums to which the paths are added.
      window: as in `backup`.
      with_rewards: as in `climb`.

    Returns:
      The sums.
    """

    def add(sums: Sums, level: Level) -> Sums:
        ones = jnp.ones_like(level.node)
        height = jnp.broadcast_to(level.height, level.node.shape)
        return Sums(
            returns=batched_add(sums.returns, level.node, level.value, level.is_inside),
            visits=batched_add(sums.visits, level.node, ones, level.is_inside),
            passes=batched_add(sums.passes, level.node, ones, level.is_active),
            heights=batched_max(sums.heights, level.node, height, level.is_active),
        )

    return climb(
        tree,
        leaves,
        values,
        sums,
        add,
        is_active=is_active,
        window=window,
        with_rewards=with_rewards,
    )
