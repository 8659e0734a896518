"""Random keys: one for a whole batch, as in mctx, or one for each of its elements.

Every policy takes either. One key draws what mctx draws from it, in arrays over the batch. With a
key for each element nothing that an element draws depends on its place in the batch, on the rest of
the batch, or on how it is spread over devices.
"""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

# What a selection rule draws for, beside mctx's tie-breaks.
EXPLORING, REGULARIZED, FROZEN = range(3)


def is_per_element(rng_key: chex.PRNGKey) -> bool:
    """Tells whether there are `[B]` keys, typed or raw `[B, 2]`, and not one."""
    is_typed = jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key)
    return jnp.ndim(rng_key) > (0 if is_typed else 1)


def split_key(rng_key: chex.PRNGKey, num: int = 2) -> tuple[chex.PRNGKey, ...]:
    """Splits a key, or each of `[B]` keys, into `num` of the same form."""
    if is_per_element(rng_key):
        return tuple(jax.vmap(lambda key: jax.random.split(key, num), out_axes=1)(rng_key))
    return tuple(jax.random.split(rng_key, num))


def fold_in_key(rng_key: chex.PRNGKey, data: Any) -> chex.PRNGKey:
    """Folds a number into a key, or into each of `[B]` keys."""
    if is_per_element(rng_key):
        return jax.vmap(jax.random.fold_in, (0, None))(rng_key, data)
    return jax.random.fold_in(rng_key, data)


def element_keys(rng_key: chex.PRNGKey, batch_size: int) -> chex.PRNGKey:
    """Returns `[B]` keys: those given, or what one key splits into."""
    return rng_key if is_per_element(rng_key) else jax.random.split(rng_key, batch_size)


def node_keys(
    rng_key: chex.PRNGKey, purpose: int, depth: chex.Numeric, batch_size: int
) -> chex.PRNGKey:
    """Returns `[B]` keys for what a rule draws at the nodes of one depth.

    All keys of a simulation differ, those of other purposes, depths and elements and mctx's own:
    splitting folds small numbers in, so a purpose is counted down from the largest.

    Args:
      rng_key: the simulation's.
      purpose: what is drawn, one of the constants above.
      depth: scalar, of the nodes.
      batch_size: B.
    """
    key = fold_in_key(rng_key, np.uint32(2**32 - 1 - purpose))
    return element_keys(fold_in_key(key, depth), batch_size)


def repeat_key(rng_key: chex.PRNGKey, num: int) -> chex.PRNGKey:
    """Returns what draws for `[B·K]` rows, K = `num` of each element: one key, or as many keys."""
    if is_per_element(rng_key):
        keys = jax.vmap(lambda key: jax.random.split(key, num))(rng_key)
        return keys.reshape(-1, *keys.shape[2:])
    return rng_key


def draw(sample_fn: Callable[..., chex.Array], rng_key: chex.PRNGKey, *arrays: Any) -> chex.Array:
    """Calls `sample_fn(key, *arrays)` on `[B, ...]` arrays at once, or with a key on each element.

    Args:
      sample_fn: draws for arrays with or without the batch's axis.
      rng_key: consumed; one key, or `[B]` keys.
      *arrays: `[B, ...]` each.

    Returns:
      What was drawn, `[B, ...]`.
    """
    if is_per_element(rng_key):
        return jax.vmap(sample_fn)(rng_key, *arrays)
    return sample_fn(rng_key, *arrays)
