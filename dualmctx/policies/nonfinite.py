"""Network outputs that are not finite: the search continues, and its tree records the problem.

At the root, and in the outputs of a later head, a NaN logit is replaced by 0 and +infinity by the
largest float, so the prior of the root is finite and the chosen action is legal. The value returned
with such logits becomes NaN, which `dualmctx.search.tree.is_finite` detects after the search.
Outputs below the root are not changed, because that would cost time in every simulation;
`is_finite` detects non-finite numbers there as well.
"""

from typing import Any

import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.types import Params, RefineFn


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
