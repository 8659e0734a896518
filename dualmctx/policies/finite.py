"""Networks whose outputs are not finite: the search goes on, and its tree says so.

A policy takes NaN among the logits as 0 and +infinity as the largest number, so its priors are
finite and its actions legal. The value that comes with such logits becomes NaN. The tree keeps
every value in `raw_values`, where `dualmctx.tree.is_finite` finds it after the search.
"""

from typing import Any

import chex
import jax.numpy as jnp
import mctx

from dualmctx.types import Params, RecurrentFn, RefineFn


def finite_root(root: mctx.RootFnOutput) -> mctx.RootFnOutput:
    """Returns `[B]` roots whose logits the search can use."""
    logits, value = _repair(root.prior_logits, root.value)
    return root.replace(prior_logits=logits, value=value)  # pyright: ignore[reportAttributeAccessIssue]


def finite_recurrent_fn(recurrent_fn: RecurrentFn) -> RecurrentFn:
    """Makes `recurrent_fn` return logits that the search can use."""

    def finite(params: Params, rng_key: chex.PRNGKey, action: Any, embedding: Any) -> tuple:
        step, embedding = recurrent_fn(params, rng_key, action, embedding)
        logits, value = _repair(step.prior_logits, step.value)
        # The value of a terminal node is never the network's.
        value = jnp.where(step.discount == 0, step.value, value)
        return step.replace(prior_logits=logits, value=value), embedding  # pyright: ignore[reportAttributeAccessIssue]

    return finite


def finite_refine_fn(refine_fn: RefineFn) -> RefineFn:
    """Makes `refine_fn` return logits that the search can use."""

    def finite(params: Params, rng_key: chex.PRNGKey, embedding: Any) -> tuple:
        return _repair(*refine_fn(params, rng_key, embedding))

    return finite


def _repair(logits: chex.Array, value: chex.Array) -> tuple[chex.Array, chex.Array]:
    """Returns `[M, A]` usable logits, and `[M]` values, NaN where logits had to change.

    Finite logits, and −infinity, which masks an action, stay as they are.
    """
    is_bad = ~(logits < jnp.inf)
    usable = jnp.where(is_bad, jnp.nan_to_num(logits), logits)
    return usable, jnp.where(jnp.any(is_bad, axis=-1), jnp.nan, value)
