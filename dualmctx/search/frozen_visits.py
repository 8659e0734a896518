"""search-contempt's rule, which samples from frozen visit counts at the nodes of one side."""

# Some functions of jax have incomplete types.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_gather, batched_scatter
from dualmctx.search.climb import Level
from dualmctx.search.keys import FROZEN, node_keys
from dualmctx.search.select import argmax
from dualmctx.search.statistics import Statistic, read_statistic
from dualmctx.search.stats import TreeStats, read_children
from dualmctx.search.tree import Tree
from dualmctx.types import SelectFn

_NAME = "frozen"


class Frozen(NamedTuple):
    """The arrays of the statistic.

    Attributes:
      visits: `[B, N, A]` N_scl(s, a): the visits of the children until they sum to |N_scl|, then
        constant. Every node has them; the rule reads those of one side.
      sides: `[B, N]` int8, 1 where the root's player is to move and -1 where the opponent is. At
        terminal nodes the value has no meaning.
    """

    visits: Array
    sides: Array


def sample_frozen(select_fn: SelectFn, limit: int, temperature: float) -> SelectFn:
    """Returns a rule that samples from the frozen counts at the frozen nodes of one side.

    Args:
      select_fn: the rule at all other nodes.
      limit: N_scl; positive for the opponent's nodes, negative for the player's own except the
        root.
      temperature: T, positive.

    Returns:
      The selection function; it reads the `Frozen` of the first tree.

    Source: Joshi 2025, section 3.
    """

    def select(rng_key: Array, tree: Tree, node_index: Array, depth: Array) -> Array:
        frozen: Frozen = read_statistic(tree, node_index, _NAME)
        visits = frozen.visits.astype(jnp.int32)
        is_side = frozen.sides == -jnp.sign(limit)
        is_full = jnp.sum(visits, axis=-1) >= abs(limit)
        samples = is_side & is_full & (node_index != Tree.ROOT_INDEX)
        choice = select_fn(rng_key, tree, node_index, depth)

        def sample(choice: Array) -> Array:
            keys = node_keys(rng_key, FROZEN, depth, visits.shape[0])
            return jnp.where(samples, sample_visits(keys, visits, temperature), choice)

        # If the players alternate, no tree has such a node at every other depth.
        return jax.lax.cond(jnp.any(samples), sample, lambda choice: choice, choice)

    return select


def sample_visits(rng_keys: Array, visits: Array, temperature: float) -> Array:
    """Samples `[B]` int32 actions in proportion to `[B, A]` visits^(1/T); consumes `[B]` keys.

    An action without visits is never sampled if another action has visits.
    """
    position = jax.vmap(jax.random.uniform)(rng_keys)[:, None]
    most = jnp.max(visits, axis=-1, keepdims=True)
    # Relative to the largest, because powers of counts overflow at low temperatures.
    weights = (visits / jnp.maximum(most, 1)) ** (1 / temperature)
    # Rounding may affect the last bit of a sum, so only actions with visits are compared.
    sums = jnp.where(visits > 0, jnp.cumsum(weights, axis=-1), 0)
    return argmax(sums > position * jnp.max(sums, axis=-1, keepdims=True))


def frozen_visits(limit: int) -> Statistic:
    """Returns the statistic that keeps `Frozen`.

    The counts of each node on the path become the visits of its children, as long as these sum to
    at most the limit. A simulation adds at most one visit, so the counts end as the visits at the
    moment when their sum was the limit. Where a window leaves the visits unchanged, nothing
    changes here.

    A search from a kept tree starts with the visits of the kept nodes. So nodes that have more of
    them than the limit are frozen from the start.

    Args:
      limit: N_scl, not 0.
    """

    def init(stats: TreeStats) -> Frozen:
        sides = jnp.zeros(stats.node_stats.shape[:2], jnp.int8)
        return Frozen(jnp.zeros_like(stats.children_visits), sides.at[:, Tree.ROOT_INDEX].set(1))

    def update(stats: TreeStats, level: Level, values: Frozen, carry: Any) -> tuple[Frozen, Any]:
        visits = read_children(stats, level.node).visits
        is_leaf = level.height == 0
        changes = level.is_active & ~is_leaf & (jnp.sum(visits, axis=-1) <= abs(limit))
        parent = jnp.maximum(level.edge.parent, Tree.ROOT_INDEX)
        side = batched_gather(values.sides, parent) * jnp.sign(level.edge.discount)
        new = Frozen(
            batched_scatter(values.visits, level.node, visits, changes),
            batched_scatter(values.sides, level.node, side, level.is_active & is_leaf),
        )
        return new, carry

    def resume(stats: TreeStats, values: Frozen) -> Frozen:
        # Sides are relative to the root's player, which the new root may have changed.
        sides = values.sides * values.sides[:, Tree.ROOT_INDEX, None]
        return Frozen(stats.children_visits, sides)

    return Statistic(_NAME, init, update, resume=resume)
