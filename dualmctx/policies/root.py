"""What policies share at the root: priors over legal actions, noise, sampling."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.search.keys import draw
from dualmctx.search.select import argmax
from dualmctx.search.tree import is_unmasked
from dualmctx.types import EvaluateFn, NodeInit, Params, RecurrentFn

# Small enough to leave every policy as it is, large enough to survive a mixture: PUCT takes an
# action as illegal iff its prior is exactly 0, so a legal one must never underflow.
_SMALLEST_PRIOR = 1e-30


def legal_probabilities(logits: chex.Array) -> chex.Array:
    """Returns the softmax of `[..., A]` logits, exactly 0 for masked actions and for them only.

    An action is masked iff its logit lies more than a million below the largest, in float16 more
    than half of its range. Where all logits are equal, as where all are masked, all probabilities
    are.
    """
    is_legal = is_unmasked(logits)
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    # The difference of two infinities is NaN.
    logits = jnp.maximum(logits, jnp.finfo(logits.dtype).min)
    best = jnp.max(logits, axis=-1, keepdims=True)
    odds = jnp.where(is_legal, jnp.exp(logits - best), 0.0)
    probabilities = odds / jnp.sum(odds, axis=-1, keepdims=True)
    return jnp.where(is_legal, jnp.maximum(probabilities, _SMALLEST_PRIOR), 0.0)


def forbid_probabilities(prior: chex.Array, is_invalid: chex.Array) -> chex.Array:
    """Takes the actions of a `[B, A]` mask out of `[B, A]` probabilities; the rest sum to 1."""
    allowed = jnp.where(is_invalid, 0.0, prior)
    total = jnp.maximum(jnp.sum(allowed, axis=-1, keepdims=True), jnp.finfo(prior.dtype).tiny)
    # A prior that loses nothing stays as it is, to the last bit.
    loses = jnp.any(allowed != prior, axis=-1, keepdims=True)
    return jnp.where(loses, allowed / total, prior)


def forbid_logits(logits: chex.Array, is_invalid: chex.Array) -> chex.Array:
    """Takes the actions of a `[B, A]` mask out of `[B, A]` logits."""
    return jnp.where(is_invalid, jnp.finfo(logits.dtype).min, logits)


def mask_logits(logits: chex.Array, invalid_actions: chex.Array | None) -> chex.Array:
    """Returns logits with the lowest finite number at invalid actions, as mctx's policies do."""
    if invalid_actions is None:
        return logits
    chex.assert_equal_shape([logits, invalid_actions])
    logits = logits - jnp.max(logits, axis=-1, keepdims=True)
    return jnp.where(invalid_actions, jnp.finfo(logits.dtype).min, logits)


def root_evaluation(root: mctx.RootFnOutput, prior: chex.Array) -> NodeInit:
    """Returns the root as a node; nothing reads the reward and discount of its missing edge."""
    return NodeInit(prior, root.value, jnp.zeros_like(root.value), jnp.ones_like(root.value))


def no_invalid_actions(root: mctx.RootFnOutput, invalid_actions: Any) -> chex.Array:
    """Returns the mask, of zeros where there is none."""
    return jnp.zeros_like(root.prior_logits) if invalid_actions is None else invalid_actions


def evaluate_logits(recurrent_fn: RecurrentFn) -> EvaluateFn:
    """Makes nodes that hold the logits of `recurrent_fn`, for mctx's rules."""

    def evaluate(params: Params, rng_key: Any, action: Any, embedding: Any) -> tuple:
        step, embedding = recurrent_fn(params, rng_key, action, embedding)
        return NodeInit(step.prior_logits, step.value, step.reward, step.discount), embedding

    return evaluate


def evaluate_probabilities(recurrent_fn: RecurrentFn) -> EvaluateFn:
    """Makes nodes that hold probabilities over legal actions, for PUCT."""

    def evaluate(params: Params, rng_key: Any, action: Any, embedding: Any) -> tuple:
        new, embedding = evaluate_logits(recurrent_fn)(params, rng_key, action, embedding)
        return new._replace(prior=legal_probabilities(new.prior)), embedding

    return evaluate


def add_dirichlet_noise(
    rng_key: chex.PRNGKey, prior: chex.Array, *, fraction: float, alpha: float
) -> chex.Array:
    """Mixes Dirichlet noise into `[B, A]` probabilities, over legal actions only.

    Formula: (1 − ε) p + ε η with η ~ Dir(α) over the actions with p > 0. mctx draws η over all
    actions and masks afterwards, which gives legal actions less noise than asked for.

    Source: Silver et al. 2017 (AlphaGo Zero), "Self-play".
    """
    if fraction == 0:
        return prior  # Drawing gamma variates takes several loops, to run and to compile.
    is_legal = prior > 0
    # In logs, as a draw with small α underflows.
    alphas = jnp.full_like(prior, alpha)
    log_gamma = draw(lambda key, a: jax.random.loggamma(key, a, dtype=a.dtype), rng_key, alphas)
    noise = jax.nn.softmax(jnp.where(is_legal, log_gamma, -jnp.inf), axis=-1)
    noisy = jnp.maximum((1 - fraction) * prior + fraction * noise, _SMALLEST_PRIOR)
    return jnp.where(is_legal, noisy, 0.0)


def sample_action(rng_key: chex.PRNGKey, weights: chex.Array, temperature: Any) -> chex.Array:
    """Samples `[B]` actions in proportion to weights^(1 / temperature); 0 takes the largest.

    Args:
      rng_key: consumed.
      weights: `[B, A]`, 0 for actions that must not be taken.
      temperature: a number of at least 0, or an array that broadcasts against `[B, A]`.

    Returns:
      `[B]` int32 actions.
    """
    logits = jnp.log(jnp.maximum(weights, _SMALLEST_PRIOR))
    temperature = jnp.asarray(temperature, weights.dtype)
    noise = draw(lambda key, x: jax.random.gumbel(key, x.shape, x.dtype), rng_key, weights)
    # Masked last: however large the noise, an action without weight stays behind.
    noisy = jnp.maximum(logits + temperature * noise, jnp.finfo(weights.dtype).min)
    return argmax(jnp.where(weights == 0, -jnp.inf, noisy))
