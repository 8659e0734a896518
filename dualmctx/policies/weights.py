"""How a finished search becomes a policy: weights over the root's actions."""

import chex
import jax
import jax.numpy as jnp

from dualmctx.tree import Children

_BISECTIONS = 32


def smoothed_visits(visits: chex.Array, is_legal: chex.Array) -> chex.Array:
    """Returns (1 + N(a)) / (|A| + Σ N) over the legal actions.

    Args:
      visits: `[B, A]` visit counts.
      is_legal: `[B, A]` bool.

    Returns:
      `[B, A]` weights that sum to 1.

    Source: Kadam, Xu, Lieberherr 2021, eq. 2.
    """
    counts = jnp.where(is_legal, visits + 1.0, 0.0)
    return counts / jnp.sum(counts, axis=-1, keepdims=True)


def regularized_policy(
    prior: chex.Array, qvalues: chex.Array, total_visits: chex.Array, *, c_puct: float
) -> chex.Array:
    """Returns the policy that PUCT's visit counts approximate, without their rounding.

    Formula:
        π̄(a) = λ P(a) / (α − q(a)),   λ = c · sqrt(ΣN) / (|A| + ΣN)

    with |A| the number of legal actions and α such that the weights sum to 1, found by bisection
    between max(q + λ P) and max(q) + λ. It maximises qᵀπ − λ KL(P, π). What is bisected is
    α − max(q), and its logarithm, as it is tiny where the best action has a tiny prior.

    Args:
      prior: `[B, A]` probabilities P, 0 for illegal actions.
      qvalues: `[B, A]` q, seen by the player to move at the root.
      total_visits: `[B]` ΣN; where it is 0, π̄ = P.
      c_puct: c of the search.

    Returns:
      `[B, A]` weights that sum to 1, 0 for illegal actions.

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

    def policy(excess: chex.Array) -> chex.Array:
        return weighted / jnp.maximum(gaps + excess, jnp.finfo(prior.dtype).tiny)

    def halve(_: int, bounds: tuple[chex.Array, chex.Array]) -> tuple[chex.Array, chex.Array]:
        low, high = bounds
        middle = jnp.sqrt(low) * jnp.sqrt(high)
        is_low = jnp.sum(policy(middle), axis=-1, keepdims=True) > 1
        return jnp.where(is_low, middle, low), jnp.where(is_low, high, middle)

    low = jnp.max(weighted - gaps, axis=-1, keepdims=True, initial=0.0, where=is_legal)
    low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (low, scale))
    found = policy(high)
    found = jnp.where(total > 0, found, prior)
    return found / jnp.sum(found, axis=-1, keepdims=True)


def completed_qvalues(children: Children, value: chex.Array) -> chex.Array:
    """Returns `[B, A]` Q, with the root's `[B]` search value where an action was not visited."""
    return jnp.where(children.visits > 0, children.qvalues, value[:, None])
