"""Action weights of a node, usually the root, computed from its statistics."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.keys import REGULARIZED, gumbel, node_keys
from dualmctx.search.node import Node, Scores
from dualmctx.search.select import QValues, ScoringRule

# Steps of Newton's method. If priors are not extreme, 8 steps reach float32's precision.
_STEPS = 20


def smoothed_visits(visits: Array, is_legal: Array) -> Array:
    """Returns (1 + N(a)) / (|A| + Σ N) over the legal actions.

    Args:
      visits: `[B, A]` visit counts.
      is_legal: `[B, A]` bool.

    Returns:
      `[B, A]` float32 weights that sum to 1; all 0 if no action is legal.

    Source: Kadam, Xu, Lieberherr 2021, eq. 2.
    """
    counts = jnp.where(is_legal, visits.astype(jnp.float32) + 1, 0)
    return counts / jnp.maximum(jnp.sum(counts, axis=-1, keepdims=True), 1)


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
