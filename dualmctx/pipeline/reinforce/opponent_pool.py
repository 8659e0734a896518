"""The pool of earlier policies from which the opponents of reinforcement learning are drawn."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.types import Params


class Pool(NamedTuple):
    """Parameters of policies, stacked on a leading axis.

    Attributes:
      params: `[P, ...]` parameters. The first entry is the policy with which the pool was made.
      num_added: int32, the number of policies added so far, including the first one.
    """

    params: Params
    num_added: chex.Array


def make_pool(params: Params, size: int) -> Pool:
    """Makes a pool of P = `size` entries that holds one policy."""
    stacked = jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype).at[0].set(x), params)
    return Pool(stacked, jnp.int32(1))


def count_policies(pool: Pool) -> chex.Array:
    """Returns the number of policies in the pool, int32, from 1 to P."""
    return jnp.minimum(pool.num_added, _size(pool))


def add_policy(pool: Pool, params: Params, is_due: chex.Array | bool = True) -> Pool:
    """Adds a policy to the pool.

    A full pool replaces its oldest policy, but never the first one, so that the learner keeps
    playing against the policy from which it started. A pool of size 1 never changes.

    Args:
      pool: the pool.
      params: the parameters of the policy.
      is_due: bool, whether to add the policy; if false, the pool stays unchanged.

    Source: Silver et al. 2016, Methods, "Policy network: reinforcement learning". Their pool keeps
    all policies.
    """
    size = _size(pool)
    is_due = jnp.logical_and(is_due, size > 1)
    slot = 1 + (pool.num_added - 1) % max(size - 1, 1)
    # An index out of bounds drops the update.
    slot = jnp.where(is_due, slot, size)
    stacked = jax.tree.map(lambda x, new: x.at[slot].set(new, mode="drop"), pool.params, params)
    return Pool(stacked, pool.num_added + is_due)


def draw_policy(pool: Pool, rng_key: chex.PRNGKey) -> tuple[Params, chex.Array]:
    """Draws a policy uniformly from the pool; consumes the key.

    Returns:
      The parameters, and the index of the policy in the pool, int32.
    """
    index = jax.random.randint(rng_key, (), 0, count_policies(pool))
    return jax.tree.map(lambda x: x[index], pool.params), index


def first_policy(pool: Pool) -> Params:
    """Returns the parameters of the policy with which the pool was made."""
    return jax.tree.map(lambda x: x[0], pool.params)


def _size(pool: Pool) -> int:
    return jax.tree.leaves(pool.params)[0].shape[0]
