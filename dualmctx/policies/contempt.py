"""search-contempt: AlphaZero against an opponent who searches each position with few visits."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.checks import MAX_COUNT, check, check_positive, describe, is_whole
from dualmctx.policies.alphazero import AlphaZero
from dualmctx.policies.conflicts import refuse
from dualmctx.search.arrays import any_true, batched_gather, batched_scatter
from dualmctx.search.climb import Level, Statistic
from dualmctx.search.keys import FROZEN, node_keys, uniform
from dualmctx.search.node import Choice, Node, Rule, WrappingRule
from dualmctx.search.select import argmax
from dualmctx.search.tree import Tree, TreeStats


@dataclasses.dataclass(frozen=True)
class Contempt(AlphaZero):
    """AlphaZero's search against an opponent of limited depth; called like a policy of mctx.

    Formula, at a node s of the player whose visits freeze, but never at the root:
        Σ_b N(s,b) ≥ |N_scl|:  a ~ N_scl(s,·)^(1/T) / Σ_b N_scl(s,b)^(1/T)
        otherwise:             PUCT

    N_scl(s,a) is N(s,a) at the moment when Σ_b N(s,b) = |N_scl|, and stays frozen until the search
    ends. Backups do not change.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Joshi 2025 (arXiv 2504.07757); negative limits and the temperature are from an open
    proposal for a chess engine. Our readings: "odd depth" in the paper means the opponent's nodes,
    so where a player may move twice, the player to move decides, not the depth. A search that
    reuses a tree starts with N_scl(s,·) = N(s,·), so nodes with more visits than the limit are
    frozen from the start. Visits are those that the backup updates; with a window they are
    truncated.
    """

    frozen_visit_limit: int | None = 5
    """N_scl, the number of visits after which the visits of a node freeze. Positive: nodes of the
    opponent. Negative: nodes of the searching player, except the root. None: no limit, which gives
    AlphaZero."""
    frozen_temperature: float = 1.0
    """Temperature T for sampling from the frozen visits, positive; below 1 it favours the most
    visited action; not used without a limit."""

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        limit = self.frozen_visit_limit
        is_valid = limit is None or (is_whole(limit) and 0 < abs(limit) <= MAX_COUNT)
        remedy = (
            f"positive, negative, or none for no limit; a whole number, {MAX_COUNT} at most in size"
        )
        check(is_valid, "frozen_visit_limit", describe(limit), remedy)
        check_positive(self, "frozen_temperature")
        reason = (
            None if limit is None else "with a frozen_visit_limit, which allows one leaf per step"
        )
        refuse(self, reason, "leaves_per_step", "virtual_loss")
        refuse(self, "in Contempt, whose rule samples", "speculation")

    def make_rule(self) -> Rule:
        """Returns the rule of the options, except at frozen nodes."""
        rule, limit = super().make_rule(), self.frozen_visit_limit
        return rule if limit is None else FrozenRule(rule, self.frozen_temperature, limit)

    def make_statistics(self) -> tuple[Statistic, ...]:
        """Returns the statistics of the options and, with a limit, the frozen visits."""
        own = () if self.frozen_visit_limit is None else (FrozenVisits(self.frozen_visit_limit),)
        return (*super().make_statistics(), *own)


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

    It reads the arrays of `Frozen`. Source: Joshi 2025, section 3.
    """

    rule: Rule
    """The rule at all other nodes."""
    temperature: Array | float
    """T, positive."""
    limit: Array | int
    """N_scl, the number of visits at which a node freezes. Positive: nodes of the opponent.
    Negative: nodes of the root's player, except the root."""

    def __call__(self, rng_key: Any, node: Node) -> Array:
        """Chooses `[B]` actions."""
        is_frozen, visits = self._read(node)
        action = self.rule(rng_key, node)

        def sample(action: Array) -> Array:
            return self._sample(rng_key, node, is_frozen, visits, action)

        # If the players alternate, every other depth has no such node.
        return jax.lax.cond(any_true(is_frozen), sample, lambda action: action, action)

    def explain(self, rng_key: Any, node: Node) -> Choice:
        """Returns the choice, with `is_frozen`, whether it was sampled, and the `frozen` visits."""
        is_frozen, visits = self._read(node)
        choice = self.rule.explain(rng_key, node)
        action = self._sample(rng_key, node, is_frozen, visits, choice.action)
        return Choice(action, choice.reasons | {"is_frozen": is_frozen, "frozen": visits})

    def _read(self, node: Node) -> tuple[Array, Array]:
        """Returns `[B]` bool, frozen nodes of the player, and `[B, A]` int32 frozen visits."""
        frozen: Frozen = node.statistic(FrozenVisits.name)
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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FrozenVisits(Statistic):
    """The statistic "frozen", with the arrays of `Frozen`.

    Each backup copies the visits of the children to `Frozen.visits` at the nodes of the path, as
    long as they sum to at most the limit. A simulation adds at most one visit, so the last copy is
    made when the sum equals the limit. Where a window leaves the visits unchanged, the copy is
    unchanged as well.
    """

    name: ClassVar[str] = "frozen"
    in_kernels: ClassVar[bool] = True

    limit: Array | int
    """N_scl, not 0."""

    def init(self, stats: TreeStats) -> Frozen:
        """Allocates the arrays."""
        sides = jnp.zeros(stats.node_stats.shape[:2], jnp.int8)
        return Frozen(jnp.zeros_like(stats.children_visits), sides.at[:, Tree.ROOT_INDEX].set(1))

    def update(
        self, stats: TreeStats, level: Level, values: Frozen, carry: Any
    ) -> tuple[Frozen, Any]:
        """Copies the visits of a node, and sets the side of a leaf."""
        visits = batched_gather(stats.children_visits, level.node).astype(jnp.int32)
        is_leaf = level.height == 0
        changes = level.is_active & ~is_leaf & (jnp.sum(visits, axis=-1) <= abs(self.limit))
        parent = jnp.maximum(level.edge.parent, Tree.ROOT_INDEX)
        side = batched_gather(values.sides, parent) * jnp.sign(level.edge.discount)
        new = Frozen(
            batched_scatter(values.visits, level.node, visits, changes),
            batched_scatter(values.sides, level.node, side, level.is_active & is_leaf),
        )
        return new, carry

    def resume(self, stats: TreeStats, values: Frozen) -> Frozen:
        """Takes the visits of the reused nodes."""
        # Sides are relative to the player at the root, and the new root may have the other player.
        sides = values.sides * values.sides[:, Tree.ROOT_INDEX, None]
        return Frozen(stats.children_visits, sides)
