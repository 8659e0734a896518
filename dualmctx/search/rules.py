"""Rules and statistics beyond PUCT: implicit minimax values, RAVE, and the regularised policy."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import (
    batched_gather,
    batched_scatter,
    by_edge,
    gather_pair,
    lane_index,
    row_length,
    scatter_pair,
)
from dualmctx.search.climb import Level, Statistic
from dualmctx.search.keys import REGULARIZED, gumbel, node_keys
from dualmctx.search.node import Node, Scores
from dualmctx.search.select import QValues, ScoringRule
from dualmctx.search.tree import Tree, TreeStats


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MinimaxMix(QValues):
    """Q mixed with the minimax value.

    Formula, for visited actions; unvisited ones keep Q:
        Q*(s,a) = (1 − α) Q(s,a) + α (r + γ v(s'))

    where v(s') is the minimax value of the child, from the arrays of `Minimax`.

    Source: Lanctot et al. 2014, "Monte Carlo tree search with heuristic evaluations using implicit
    minimax backups", section III.
    """

    mix: Array | float
    """α in [0, 1]; 0.4 in the paper."""
    qvalues: QValues
    """Q."""

    def __call__(self, node: Node) -> Array:
        """Returns the `[B, A]` mixture."""
        mean, minimax = self.qvalues(node), node.statistic(Minimax.name)
        return jnp.where(node.visits > 0, (1 - self.mix) * mean + self.mix * minimax, mean)


@dataclasses.dataclass(frozen=True)
class Minimax(Statistic):
    """`[B, N, A]` minimax values r + γ v(s') of visited actions, from the view of the player at s.

    Formula, from the leaf up:
        v(s) = max_a r(s,a) + γ(s,a) v(s')   over the visited actions; the raw value if there are
        none

    The discounts give the signs, so a player may move twice in a row. The backup writes the value
    of each edge that it updates. With a window, values above the window stay stale, as the means
    do. The entries of unvisited actions are undefined.

    Source: Lanctot et al. 2014, algorithm 1. There all children of a node are evaluated at once;
    here the maximum is over the visited children.
    """

    name: ClassVar[str] = "minimax"
    in_kernels: ClassVar[bool] = True

    def init(self, stats: TreeStats) -> Array:
        """Allocates the values."""
        return jnp.zeros_like(stats.children_qvalues)

    def update(
        self, stats: TreeStats, level: Level, values: Array, carry: tuple[()]
    ) -> tuple[Array, tuple[()]]:
        """Writes the value of the edge of a level."""
        is_visited = batched_gather(stats.children_visits, level.node) > 0
        row = jnp.where(is_visited, batched_gather(values, level.node), -jnp.inf)
        # Only a leaf can be without visited children; its minimax value is its raw value.
        value = jnp.where(jnp.sum(is_visited, axis=-1) > 0, jnp.max(row, axis=-1), level.value)
        value = level.edge.reward + level.edge.discount * value
        new = batched_scatter(by_edge(values), level.edge.flat_index, value, level.is_edge_inside)
        return new.reshape(values.shape), carry


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RaveMix(QValues):
    """Q mixed with the all-moves-as-first mean, whose weight decreases with the node's visits.

    Formula, for actions with Ñ(s,a) > 0, whether visited at s or not; other actions keep Q:
        Q*(s,a) = (1 − β) Q(s,a) + β Q̃(s,a),   β = sqrt(k / (3 Σ_b N(s,b) + k))

    where Ñ and Q̃ are the arrays of `Rave`.

    Source: Gelly and Silver 2011, "Monte-Carlo tree search and rapid action value estimation in
    computer Go", section 5, the hand-selected schedule.
    """

    rave_visits: Array | float
    """k, positive: the number of visits at which both means have the same weight."""
    qvalues: QValues
    """Q."""

    def __call__(self, node: Node) -> Array:
        """Returns the `[B, A]` mixture."""
        mean = self.qvalues(node)
        counts, means = node.statistic_pair(Rave.name)
        total = jnp.sum(node.visits, axis=-1, keepdims=True).astype(mean.dtype)
        beta = jnp.sqrt(self.rave_visits / (3 * total + self.rave_visits))
        return jnp.where(counts > 0, (1 - beta) * mean + beta * means, mean)


class _Played(NamedTuple):
    """The actions played on the path so far, `[B, A]` bool each.

    Attributes:
      own: those of the player to move at the current node.
      other: those of the other player.
    """

    own: Array
    other: Array


@dataclasses.dataclass(frozen=True)
class Rave(Statistic):
    """`[B, N, A, 2]` all-moves-as-first counts and means, from the view of the player at the node.

    A simulation passes through a node s and has return G from the view of the player at s. It adds
    G once to each action that this player took on the path, at s or below:
        Ñ ← Ñ + 1;   Q̃ ← Q̃ + (G − Q̃) / Ñ

    The signs of the discounts determine which player took an action. A player may therefore move
    twice in a row, and the actions of players with different action spaces never mix. The backup
    writes the row of a node if it updates the edge by which the path leaves that node.

    Source: Gelly and Silver 2011, section 4. There a playout policy continues the simulation to the
    end of the game; here the simulation ends at the leaf, so only actions in the tree count.
    """

    name: ClassVar[str] = "rave"
    in_kernels: ClassVar[bool] = True

    def init(self, stats: TreeStats) -> Array:
        """Allocates the counts and means."""
        return jnp.zeros((*stats.children_qvalues.shape, 2), stats.children_qvalues.dtype)

    def start(self, stats: TreeStats, leaf: Array) -> _Played:
        """Returns that no action has been played."""
        none = jnp.zeros((leaf.shape[0], row_length(stats.children_visits)), bool)
        return _Played(none, none)

    def update(
        self, stats: TreeStats, level: Level, values: Array, carry: _Played
    ) -> tuple[Array, _Played]:
        """Updates the row of the parent of a level's node."""
        del stats
        edge, num_actions = level.edge, values.shape[2]
        parent = jnp.maximum(edge.parent, Tree.ROOT_INDEX)
        changes_player = edge.discount[:, None] < 0
        own = jnp.where(changes_player, carry.other, carry.own)
        other = jnp.where(changes_player, carry.own, carry.other)
        action = edge.flat_index - parent * num_actions
        own |= lane_index(own.shape) == action[:, None]
        count, mean = gather_pair(values, parent)
        new_mean = mean + (level.value_above[:, None] - mean) / (count + 1)
        count, mean = jnp.where(own, count + 1, count), jnp.where(own, new_mean, mean)
        values = scatter_pair(values, parent, count, mean, level.is_edge_inside)
        return values, _Played(own, other)


# Steps of Newton's method. If priors are not extreme, 8 steps reach float32's precision.
_STEPS = 20


def regularized_policy(
    prior: Array, qvalues: Array, total_visits: Array, *, c_puct: Array | float
) -> Array:
    """Returns the policy that PUCT's visit counts approximate, without their rounding.

    Formula:
        π̄(a) = λ P(a) / (α − q(a)),   λ = c · sqrt(ΣN) / (|A| + ΣN)

    where |A| is the number of legal actions and α makes the weights sum to 1. π̄ maximises
    qᵀπ − λ KL(P, π). The solver computes α − max(q) instead of α, because this difference is tiny
    if the best action has a tiny prior. It applies Newton's method to 1 / Σπ̄, starting from the
    lower bound max(q + λ P) of α. As a function of α, 1 / Σπ̄ is concave, and linear for a single
    action, so a few steps suffice; the paper's bisection takes dozens. The weights are exact to
    float32's precision: the error was at most 1e-6 in the worst cases tried.

    Args:
      prior: `[B, A]` probabilities P, 0 for illegal actions.
      qvalues: `[B, A]` q, from the view of the player to move at the node.
      total_visits: `[B]` ΣN; if it is 0, π̄ = P.
      c_puct: c of the search.

    Returns:
      `[B, A]` weights that sum to 1, 0 for illegal actions. If they are not finite, for example
      because a Q-value is not, the result is P.

    Source: Grill et al. 2020, "Monte-Carlo tree search as regularized policy optimization",
    section 3 and appendix B.3.
    """
    is_legal = prior > 0
    total = total_visits[:, None].astype(prior.dtype)
    num_legal = jnp.sum(is_legal, axis=-1, keepdims=True)
    scale = c_puct * jnp.sqrt(total) / (num_legal + total)
    weighted = scale * prior
    best = jnp.max(jnp.where(is_legal, qvalues, -jnp.inf), axis=-1, keepdims=True)
    gaps = jnp.where(is_legal, best - qvalues, 0.0)

    tiny = jnp.finfo(prior.dtype).tiny
    excess = jnp.max(weighted - gaps, axis=-1, keepdims=True, initial=0.0, where=is_legal)
    for _ in range(_STEPS):
        inverse = 1 / jnp.maximum(gaps + excess, tiny)
        policy = weighted * inverse
        total_weight = jnp.sum(policy, axis=-1, keepdims=True)
        slope = jnp.maximum(jnp.sum(policy * inverse, axis=-1, keepdims=True), tiny)
        excess += (total_weight - 1) * total_weight / slope
    found = weighted / jnp.maximum(gaps + excess, tiny)
    found = jnp.where(total > 0, found, prior)
    sum_found = jnp.sum(found, axis=-1, keepdims=True)
    return jnp.where(jnp.isfinite(sum_found) & (sum_found > 0), found / sum_found, prior)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RegularizedRule(ScoringRule):
    """A rule that samples actions from the regularised policy of the node.

    Formula: a ~ π̄(s,·), where λ, P and q are those of the node; without visits, a ~ P. Each element
    of the batch has a key of its own.

    Source: Grill et al. 2020, section 4, "Search".
    """

    in_kernels: ClassVar[bool] = True

    c_puct: Array | float
    """c."""
    qvalues: QValues
    """q; `CompletedMeans`, perhaps mixed."""

    def score(self, rng_key: Any, node: Node) -> Scores:
        """Returns the logarithm of the policy, and noise."""
        prior, total = node.prior, jnp.sum(node.visits, axis=-1)
        policy = regularized_policy(prior, self.qvalues(node), total, c_puct=self.c_puct)
        keys = node_keys(rng_key, REGULARIZED, node.depth, node.batch_size)
        noise = gumbel(keys, node.num_actions, policy.shape[1], policy.dtype)
        logits = jnp.log(policy)
        score = jnp.where(prior > 0, logits + noise, -jnp.inf)
        return Scores((logits, noise), score, ("log policy", "Gumbel noise"))
