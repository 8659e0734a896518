"""Networks whose outputs are not finite: the search goes on, and its tree says so.

At the root, and in the outputs of a later head, NaN among the logits counts as 0 and +infinity as
the largest number, so the root's prior is finite and the action legal. The value that comes with
such logits becomes NaN, which `dualmctx.search.tree.is_finite` finds after the search. Below the
root nothing is changed, because that would cost time in every simulation; `is_finite` finds a
non-finite number there as well.
"""

from typing import Any

import chex
import jax.numpy as jnp
import mctx

from dualmctx.types import Params, RefineFn


def finite_root(root: mctx.RootFnOutput) -> mctx.RootFnOutput:
    """Returns `[B]` roots whose logits the search can use."""
    logits, value = _repair(root.prior_logits, root.value)
    return root.replace(prior_logits=logits, value=value)  # pyright: ignore[reportAttributeAccessIssue]


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
