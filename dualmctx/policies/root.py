"""Functions that policies share: priors over legal actions, root noise, weights, and sampling.

If outputs of the network are not finite, the search continues, and its tree records the problem. At
the root, and in the outputs of a later head, a NaN logit is replaced by 0 and +infinity by the
largest float, so the prior of the root is finite and the chosen action is legal. The value returned
with such logits becomes NaN, which `dualmctx.search.tree.is_finite` detects after the search.
Outputs below the root are not changed, because that would cost time in every simulation;
`is_finite` detects non-finite numbers there as well.
"""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.search.backend import choose_backend
from dualmctx.search.keys import sample_rows
from dualmctx.search.node import EvaluateFn, NodeInit
from dualmctx.search.select import argmax
from dualmctx.search.tree import is_unmasked
from dualmctx.types import Kernels, Params, RecurrentFn, RefineFn

# PUCT treats an action as illegal iff its prior is exactly 0, so the prior of a legal action must
# not underflow. This number is too small to change a policy, and large enough to stay positive when
# priors are mixed.
_SMALLEST_PRIOR = 1e-30


def legal_probabilities(logits: Array, invalid_actions: Array | None = None) -> Array:
    """Returns the softmax of `[..., A]` logits, exactly 0 for masked and invalid actions only.

    An action is masked iff its logit is more than a million below the largest logit of an action
    that is not invalid, or in float16 more than half of the type's range below it. If all these
    logits are equal, for example because all are masked, their probabilities are equal.

    Args:
      logits: finite, or -infinity.
      invalid_actions: `[..., A]`, nonzero for invalid actions; `None` for none. If all actions are
        invalid, it has no effect.
    """
    if invalid_actions is None:
        is_legal = is_unmasked(logits)
    else:
        chex.assert_equal_shape([logits, invalid_actions])
        is_valid = invalid_actions == 0
        is_valid |= ~jnp.any(is_valid, axis=-1, keepdims=True)
        is_legal = is_valid & is_unmasked(jnp.where(is_valid, logits, -jnp.inf))
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    # The difference of two infinities is NaN.
    logits = jnp.maximum(logits, jnp.finfo(logits.dtype).min)
    logits = jnp.where(is_legal, logits, -jnp.inf)
    best = jnp.max(logits, axis=-1, keepdims=True)
    odds = jnp.where(is_legal, jnp.exp(logits - best), 0.0)
    probabilities = odds / jnp.sum(odds, axis=-1, keepdims=True)
    return jnp.where(is_legal, jnp.maximum(probabilities, _SMALLEST_PRIOR), 0.0)


def forbid_probabilities(prior: Array, is_invalid: Array) -> Array:
    """Removes the actions of a `[B, A]` mask from `[B, A]` probabilities; the rest sum to 1."""
    allowed = jnp.where(is_invalid, 0.0, prior)
    total = jnp.maximum(jnp.sum(allowed, axis=-1, keepdims=True), jnp.finfo(prior.dtype).tiny)
    # If the mask removes nothing, the prior is returned bit for bit.
    loses = jnp.any(allowed != prior, axis=-1, keepdims=True)
    return jnp.where(loses, allowed / total, prior)


def forbid_logits(logits: Array, is_invalid: Array) -> Array:
    """Masks the actions of a `[B, A]` mask in `[B, A]` logits."""
    return jnp.where(is_invalid, jnp.finfo(logits.dtype).min, logits)


def mask_logits(logits: Array, invalid_actions: Array | None) -> Array:
    """Sets the logits of invalid actions to the lowest finite number, as mctx's policies do."""
    if invalid_actions is None:
        return logits
    chex.assert_equal_shape([logits, invalid_actions])
    logits = logits - jnp.max(logits, axis=-1, keepdims=True)
    return jnp.where(invalid_actions, jnp.finfo(logits.dtype).min, logits)


def evaluate_by(
    recurrent_fn: RecurrentFn, to_prior: Callable[[Array], Array] = lambda logits: logits
) -> EvaluateFn:
    """Returns a function that evaluates new nodes, with logits or what `to_prior` makes of them."""

    def evaluate(
        params: Params, rng_key: Array, action: Array, embedding: Any
    ) -> tuple[NodeInit, Any]:
        step, embedding = recurrent_fn(params, rng_key, action, embedding)
        prior = to_prior(step.prior_logits)
        return NodeInit(prior, step.value, step.reward, step.discount), embedding

    return evaluate


def add_dirichlet_noise(
    rng_key: Array, prior: Array, *, fraction: float, alpha: float, kernels: Kernels = "off"
) -> Array:
    """Mixes Dirichlet noise into `[B, A]` probabilities, over legal actions only.

    Formula: (1 − ε) p + ε η with η ~ Dir(α) over the actions with p > 0. mctx instead samples η
    over all actions and then masks it, so legal actions get less noise than the fraction ε. The
    noise is sampled in a GPU kernel if `kernels` says so, see `sample_log_gamma`.

    Source: Silver et al. 2017 (AlphaGo Zero), "Self-play".
    """
    if fraction == 0:
        return prior  # Gamma variates take several loops, which are slow to run and to compile.
    is_legal = prior > 0
    # In log space, because samples underflow if α is small.
    samples = sample_log_gamma(rng_key, jnp.full_like(prior, alpha), kernels)
    noise = jax.nn.softmax(jnp.where(is_legal, samples, -jnp.inf), axis=-1)
    noisy = jnp.maximum((1 - fraction) * prior + fraction * noise, _SMALLEST_PRIOR)
    return jnp.where(is_legal, noisy, 0.0)


def sample_log_gamma(rng_key: Array, alphas: Array, kernels: Kernels) -> Array:
    """Samples as `keys.log_gamma`, in a GPU kernel if `kernels` says so."""
    return choose_backend(kernels, alphas).log_gamma(rng_key, alphas)


def visit_shares(visits: Array, prior: Array) -> Array:
    """Returns N(a) / Σ N; the prior where nothing was visited, as before the first step.

    Args:
      visits: `[B, A]` visit counts, of a floating type.
      prior: `[B, A]` probabilities, 0 for illegal actions.
    """
    total = jnp.sum(visits, axis=-1, keepdims=True)
    return jnp.where(total > 0, visits / jnp.maximum(total, 1), prior.astype(visits.dtype))


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


def sample_action(rng_key: Array, weights: Array, temperature: Any) -> Array:
    """Samples `[B]` actions in proportion to weights^(1 / temperature); 0 takes the largest.

    Args:
      rng_key: consumed.
      weights: `[B, A]`, 0 for actions that must not be taken.
      temperature: at least 0; a number, or an array that broadcasts against `[B, A]`.

    Returns:
      `[B]` int32 actions.
    """
    logits = jnp.log(jnp.maximum(weights, _SMALLEST_PRIOR))
    temperature = jnp.asarray(temperature, weights.dtype)
    noise = sample_rows(lambda key, x: jax.random.gumbel(key, x.shape, x.dtype), rng_key, weights)
    # Masked last, so that no noise is large enough to choose an action without weight.
    noisy = jnp.maximum(logits + temperature * noise, jnp.finfo(weights.dtype).min)
    return argmax(jnp.where(weights == 0, -jnp.inf, noisy))


def finite_root(root: mctx.RootFnOutput) -> mctx.RootFnOutput:
    """Returns `[B]` roots with logits that the search can use."""
    logits, value = _repair(root.prior_logits, root.value)
    return root.replace(prior_logits=logits, value=value)


def finite_refine_fn(refine_fn: RefineFn) -> RefineFn:
    """Wraps `refine_fn` so that it returns logits that the search can use."""

    def finite(params: Params, rng_key: Array, embedding: Any) -> tuple[Array, Array]:
        return _repair(*refine_fn(params, rng_key, embedding))

    return finite


def _repair(logits: Array, value: Array) -> tuple[Array, Array]:
    """Returns `[M, A]` usable logits; and `[M]` values, NaN where logits were changed.

    Finite logits and −infinity, which masks an action, are not changed.
    """
    is_bad = ~(logits < jnp.inf)
    usable = jnp.where(is_bad, jnp.nan_to_num(logits), logits)
    return usable, jnp.where(jnp.any(is_bad, axis=-1), jnp.nan, value)
