"""Random keys: one key for a whole batch, as in mctx, or one key for each element.

Every policy accepts both forms. With one key, a policy samples the same numbers as mctx, in arrays
over the batch. With a key for each element, the samples of an element do not depend on its position
in the batch, on the other elements, or on the devices that hold the batch.

Selection rules sample by the functions of this module only, so that they can run in a kernel. There
the key is a `KernelKey`, and the numbers are the same.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.checks import describe
from dualmctx.errors import UserError
from dualmctx.search.arrays import lane_index

# The purposes for which a selection rule samples, in addition to mctx's tie-breaking.
EXPLORING, REGULARIZED, FROZEN = range(3)


class KernelKey:
    """A key in a kernel, of a whole batch or of one element; see `gpu.random.TreeKey`."""

    def child(self, number: Any) -> Any:
        """Returns key `number` of `jax.random.split`; equal to `jax.random.fold_in` as well."""
        raise NotImplementedError

    def of_element(self) -> Any:
        """Returns the key of the kernel's tree; splits the key of the batch if necessary."""
        raise NotImplementedError

    def uniform(self, counters: Array) -> Array:
        """Returns float32 in [0, 1), the numbers of `jax.random.uniform` at uint32 positions."""
        raise NotImplementedError


def is_per_element(rng_key: Array) -> bool:
    """Returns whether there is a key for each element: `[B]` typed keys or `[B, 2]` raw keys."""
    is_typed = jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key)
    return jnp.ndim(rng_key) > (0 if is_typed else 1)


def check_key(rng_key: Any, batch_size: int) -> None:
    """Checks that there is one random key for the batch, or one for each element.

    Raises:
      ValueError: if it is something else.
    """
    remedy = "pass a key, such as jax.random.PRNGKey(0), or one for each position"
    dtype = getattr(rng_key, "dtype", None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not is_typed and dtype != jnp.uint32:
        raise UserError(f"rng_key is {describe(rng_key)}; {remedy}")
    try:
        shape = jax.eval_shape(jnp.asarray if is_typed else jax.random.wrap_key_data, rng_key).shape
    except TypeError:  # The last axis of raw keys has a size that depends on their kind.
        shape = None
    if shape is None or len(shape) > 1:
        raise UserError(f"rng_key has the shape {list(rng_key.shape)}; {remedy}")
    if shape not in ((), (batch_size,)):
        raise UserError(f"rng_key has {shape[0]} keys for {batch_size} positions; {remedy}")


def split_key(rng_key: Array, num: int = 2) -> tuple[Array, ...]:
    """Splits a key, or each of `[B]` keys, into `num` keys of the same form."""
    if is_per_element(rng_key):
        return jax.vmap(lambda key: tuple(jax.random.split(key, num)))(rng_key)
    return tuple(jax.random.split(rng_key, num))


def select_key(rng_key: Array) -> Array:
    """Returns the key with which a simulation selects: the second of three that it splits off."""
    if isinstance(rng_key, KernelKey):
        return rng_key.child(1)
    return split_key(rng_key, 3)[1]


def fold_in_key(rng_key: Array, data: Any) -> Array:
    """Folds a number into a key, or into each of `[B]` keys."""
    if isinstance(rng_key, KernelKey):
        return rng_key.child(data)
    if is_per_element(rng_key):
        return jax.vmap(jax.random.fold_in, (0, None))(rng_key, data)
    return jax.random.fold_in(rng_key, data)


def element_keys(rng_key: Array, batch_size: int) -> Array:
    """Returns `[B]` keys: the given ones, or a single key split into B."""
    if isinstance(rng_key, KernelKey):
        return rng_key.of_element()
    return rng_key if is_per_element(rng_key) else jax.random.split(rng_key, batch_size)


def node_keys(rng_key: Array, purpose: int, depth: Array | int, batch_size: int) -> Array:
    """Returns the `[B]` keys with which a rule samples at the nodes of one depth.

    In one simulation all keys differ: between purposes, depths and elements, and from mctx's keys.
    Splitting a key folds in small numbers, so purposes are numbered down from the largest uint32.

    Args:
      rng_key: the key of the simulation.
      purpose: one of the constants above.
      depth: scalar, the depth of the nodes.
      batch_size: B.
    """
    key = fold_in_key(rng_key, np.uint32(2**32 - 1 - purpose))
    return element_keys(fold_in_key(key, depth), batch_size)


def mctx_keys(rng_key: Array, batch_size: int, depth: Array | int) -> Array:
    """Returns the `[B]` keys with which mctx's search calls a rule at a depth."""

    def split(keys: Array, number: int) -> Array:
        if isinstance(keys, KernelKey):
            return keys.child(number)
        return jax.vmap(jax.random.split)(keys)[:, number]

    if not isinstance(rng_key, KernelKey):
        # mctx derives the keys of all depths from one; the clone says so to `jax_debug_key_reuse`.
        rng_key = jax.random.clone(rng_key)
    keys = element_keys(rng_key, batch_size)
    keys = jax.lax.fori_loop(0, depth, lambda _, keys: split(keys, 0), keys)
    return split(keys, 1)


def uniform(rng_keys: Array, num: int, length: int | None = None) -> Array:
    """Samples `[B, num]` numbers in [0, 1) with `[B]` keys; consumes them.

    Args:
      rng_keys: from `node_keys` or `mctx_keys`.
      num: the numbers of each element.
      length: in a kernel, the padded length of the row; see `arrays.row_length`.
    """
    if isinstance(rng_keys, KernelKey):
        return rng_keys.uniform(lane_index((1, length or num), jnp.uint32))
    return jax.vmap(lambda key: jax.random.uniform(key, (num,)))(rng_keys)


def uniform_columns(rng_keys: Array, num: int) -> tuple[Array, ...]:
    """Samples as `uniform` and returns each of the `num` columns, `[B]` each."""
    if isinstance(rng_keys, KernelKey):
        return tuple(rng_keys.uniform(jnp.full((1,), i, jnp.uint32)) for i in range(num))
    samples = uniform(rng_keys, num)
    return tuple(samples[:, i] for i in range(num))


def gumbel(rng_keys: Array, num: int, length: int, dtype: Any) -> Array:
    """Samples `[B, num]` numbers from the standard Gumbel distribution; see `uniform`."""
    if isinstance(rng_keys, KernelKey):
        tiny = float(np.finfo(np.float32).tiny)
        samples = jnp.maximum(uniform(rng_keys, num, length) + tiny, tiny)
        return -jnp.log(-jnp.log(samples)).astype(dtype)
    return jax.vmap(lambda key: jax.random.gumbel(key, (num,), dtype))(rng_keys)


def repeat_key(rng_key: Array, num: int) -> Array:
    """Splits each of `[B]` keys into K = `num`, giving `[B·K]`; returns a single key unchanged."""
    if is_per_element(rng_key):
        keys = jax.vmap(lambda key: jax.random.split(key, num))(rng_key)
        return keys.reshape(-1, *keys.shape[2:])
    return rng_key


def sample_rows(sample_fn: Callable[..., Array], rng_key: Array, *arrays: Any) -> Array:
    """Calls `sample_fn(key, *arrays)` once on `[B, ...]` arrays, or on each element with its key.

    Args:
      sample_fn: a sampler that accepts arrays with or without the batch axis.
      rng_key: consumed; one key, or `[B]` keys.
      *arrays: `[B, ...]` each.

    Returns:
      `[B, ...]` samples.
    """
    if is_per_element(rng_key):
        return jax.vmap(sample_fn)(rng_key, *arrays)
    return sample_fn(rng_key, *arrays)


def log_gamma(rng_key: Array, alphas: Array) -> Array:
    """Samples logarithms of gamma variates, as `jax.random.loggamma`.

    Args:
      rng_key: consumed; one key, or `[B]` keys.
      alphas: `[B, A]`, the shape parameter of each variate; positive.

    Returns:
      `[B, A]` samples of the type of `alphas`.
    """
    return sample_rows(lambda key, a: jax.random.loggamma(key, a, dtype=a.dtype), rng_key, alphas)
