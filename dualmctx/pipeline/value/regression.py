"""Regression of the value network: the loss, the optimiser steps, and the errors on positions."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax

from dualmctx.pipeline.parts import ValueFn
from dualmctx.types import Params

_AT_ONCE = 1024
LearnFn = Callable[[Params, Any, chex.PRNGKey, Any], tuple[Params, Any, chex.Array]]
"""Takes optimiser steps; see `make_learn`."""


def mean_squared_error(
    value_fn: ValueFn, part: Params, observation: chex.Array, value: chex.Array
) -> chex.Array:
    """Returns the mean of (z − v)² over `[M]` positions, without a factor of a half."""
    return jnp.mean((value - value_fn(part, observation)) ** 2)


def make_learn(
    value_fn: ValueFn,
    optimizer: optax.GradientTransformation,
    num_updates: int,
    batch_size: int,
    symmetries: Any = None,
) -> LearnFn:
    """Returns a function that trains a value network. A batch is sampled with replacement.

    Args:
      value_fn: the network.
      optimizer: the optimiser.
      num_updates: optimiser steps per call.
      batch_size: positions per step.
      symmetries: `[S, D]` permutations of the flattened observation, of which one is applied to
        each position; `None` for none.

    Returns:
      `(part, opt_state, rng_key, positions) -> (part, opt_state, loss)`, compiled: the parameters;
      the state of the optimiser; a pair of observations `[P, ...]` and results `[P]`; the mean of
      the loss over the steps. The key is consumed.
    """

    @jax.jit
    def learn(part: Params, opt_state: Any, rng_key: chex.PRNGKey, positions: Any) -> tuple:
        observation, value = positions

        def step(carry: tuple, key: chex.PRNGKey) -> tuple:
            part, opt_state = carry
            sample_key, augment_key = jax.random.split(key)
            rows = jax.random.randint(sample_key, (batch_size,), 0, len(value))
            x = _augment(augment_key, observation[rows], symmetries)
            loss_fn = functools.partial(mean_squared_error, value_fn)
            loss, gradients = jax.value_and_grad(loss_fn)(part, x, value[rows])
            updates, opt_state = optimizer.update(gradients, opt_state, part)
            return (optax.apply_updates(part, updates), opt_state), loss

        keys = jax.random.split(rng_key, num_updates)
        (part, opt_state), losses = jax.lax.scan(step, (part, opt_state), keys)
        return part, opt_state, jnp.mean(losses)

    return learn


def _augment(rng_key: chex.PRNGKey, observation: chex.Array, symmetries: Any) -> chex.Array:
    """Applies a uniformly sampled symmetry to each of `[M, ...]` observations."""
    if symmetries is None:
        return observation
    chosen = jax.random.randint(rng_key, observation.shape[:1], 0, len(symmetries))
    flat = observation.reshape(len(observation), -1)
    moved = jnp.take_along_axis(flat, jnp.asarray(symmetries)[chosen], axis=1)
    return moved.reshape(observation.shape)


def squared_errors(
    value_fn: ValueFn, part: Params, observation: np.ndarray, value: np.ndarray
) -> np.ndarray:
    """Returns the squared errors of `[P]` positions, `[P]` float64; evaluates 1,024 at once."""
    found = [np.zeros(0)]
    for begin in range(0, len(value), _AT_ONCE):
        # The last batch is padded, because another size would compile.
        rows = np.arange(begin, begin + _AT_ONCE) % len(value)
        predicted = _predict(value_fn, part, observation[rows])
        chosen = value[begin : begin + _AT_ONCE].astype(np.float64)
        found.append((chosen - np.asarray(predicted)[: len(chosen)]) ** 2)
    return np.concatenate(found)


_predict = jax.jit(lambda value_fn, *arguments: value_fn(*arguments), static_argnums=0)
