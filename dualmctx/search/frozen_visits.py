"""The selection rule of search-contempt: at one player's nodes it samples from frozen visits."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.checks import is_whole
from dualmctx.search.arrays import any_true, batched_gather, batched_scatter
from dualmctx.search.climb import Level
from dualmctx.search.keys import FROZEN, node_keys, uniform
from dualmctx.search.node import Choice, Node, RuleFn, WrappingRule, call_rule, explain_rule
from dualmctx.search.select import argmax
from dualmctx.search.statistics import Statistic
from dualmctx.search.stats import TreeStats, read_children
from dualmctx.search.tree import Tree

_NAME = "frozen"


class Frozen(NamedTuple):
    """The arrays of the statistic.

    Attributes:
      visits: `[B, N, A]` N_scl(s, a): the visits of the children until they sum to |N_scl|, then
        constant. All nodes have them; the rule reads those of one player's nodes.
      sides: `[B, N]` int8, 1 where the root's player is to move and -1 where the opponent is;
        undefined at terminal nodes.
    """

    visits: Array
    sides: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FrozenRule(WrappingRule):
    """A rule that samples from the frozen visits at the frozen nodes of one player.

    It reads the arrays of `Frozen`.

    Source: Joshi 2025, section 3.
    """

    rule: RuleFn
    """The rule at all other nodes."""
    temperature: Array | float
    """T, positive."""
    limit: Array | int
    """N_scl, the number of visits at which a node freezes. Positive: nodes of the opponent.
    Negative: nodes of the root's player, except the root."""

    def __call__(self, rng_key: Any, node: Node) -> Array:
        """Chooses `[B]` actions."""
        is_frozen, visits = self._read(node)
        action = call_rule(self.rule, rng_key, node)

        def sample(action: Array) -> Array:
            return self._sample(rng_key, node, is_frozen, visits, action)

        # If the players alternate, every other depth has no such node.
        return jax.lax.cond(any_true(is_frozen), sample, lambda action: action, action)

    def explain(self, rng_key: Any, node: Node) -> Choice:
        """Returns the choice, `is_frozen` for nodes where it is_frozen, and the `frozen` visits."""
        is_frozen, visits = self._read(node)
        choice = explain_rule(self.rule, rng_key, node)
        action = self._sample(rng_key, node, is_frozen, visits, choice.action)
        return Choice(action, choice.reasons | {"is_frozen": is_frozen, "frozen": visits})

    def _read(self, node: Node) -> tuple[Array, Array]:
        """Returns `[B]` bool, frozen nodes of the player, and `[B, A]` int32 frozen visits."""
        frozen: Frozen = node.statistic(_NAME)
        visits = frozen.visits.astype(jnp.int32)
        is_side = frozen.sides == -jnp.sign(self.limit)
        is_full = jnp.sum(visits, axis=-1) >= abs(self.limit)
        return is_side & is_full & ~node.is_root, visits

    def _sample(
        self, rng_key: Any, node: Node, is_frozen: Array, visits: Array, action: Array
    ) -> Array:
        """Returns `[B]` actions: samples where `is_frozen` is true, else the given ones."""
        keys = node_keys(rng_key, FROZEN, node.depth, node.batch_size)
        return jnp.where(is_frozen, sample_visits(keys, visits, self.temperature), action)


def sample_visits(rng_keys: Array, visits: Array, temperature: Array | float) -> Array:
    """Samples `[B]` int32 actions in proportion to `[B, A]` visits^(1/T); consumes `[B]` keys.

    An unvisited action is never sampled if any action has visits.
    """
    position = uniform(rng_keys, 1)
    most = jnp.max(visits, axis=-1, keepdims=True)
    # Divided by the maximum, because powers of counts overflow at low temperatures.
    weights = (visits / jnp.maximum(most, 1)) ** (1 / temperature)
    # Rounding may change the last bit of a cumulative sum, so unvisited actions are masked.
    sums = jnp.where(visits > 0, jnp.cumsum(weights, axis=-1), 0)
    is_past = sums > position * jnp.max(sums, axis=-1, keepdims=True)
    return argmax(is_past.astype(jnp.int32))


def frozen_visits(limit: int) -> Statistic:
    """Returns the statistic with the arrays of `Frozen`.

    Each backup copies the visits of the children to `Frozen.visits` at the nodes of the path, as
    long as they sum to at most the limit. A simulation adds at most one visit, so the last copy is
    made when the sum equals the limit. Where a window leaves the visits unchanged, the copy is
    unchanged as well.

    A search that reuses a subtree starts with the visits of its nodes. Nodes with more visits than
    the limit are therefore frozen from the start.

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
        # Sides are relative to the player at the root, and the new root may have the other player.
        sides = values.sides * values.sides[:, Tree.ROOT_INDEX, None]
        return Frozen(stats.children_visits, sides)

    return Statistic(_NAME, init, update, resume=resume, in_kernels=is_whole(limit))
