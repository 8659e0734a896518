"""Regression of value networks: the loss, the optimiser steps, and the errors on positions."""

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
LearnFn = Callable[[Any, Any, chex.PRNGKey, Any], tuple[Any, Any, dict[str, chex.Array]]]
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
    """Returns a function that trains one or more value networks, each on its own positions.

    A batch is sampled with replacement. The networks use the same random numbers, so that with the
    same positions and initial parameters they stay the same.

    Args:
      value_fn: the network.
      optimizer: the optimiser of each network.
      num_updates: optimiser steps per call.
      batch_size: positions per step.
      symmetries: `[S, D]` permutations of the flattened observation, of which one is applied to
        each position; `None` for none.

    Returns:
      `(parts, opt_states, rng_key, positions) -> (parts, opt_states, losses)`, compiled. All are
      dictionaries with the same names: parameters; states of the optimiser; pairs of observations
      `[P, ...]` and results `[P]`; means of the loss over the steps. The key is consumed.
    """

    def update(key: chex.PRNGKey, part: Params, opt_state: Any, positions: Any) -> tuple:
        sample_key, augment_key = jax.random.split(key)
        observation, value = positions
        rows = jax.random.randint(sample_key, (batch_size,), 0, len(value))
        x = _augment(augment_key, observation[rows], symmetries)
        loss_fn = functools.partial(mean_squared_error, value_fn)
        loss, gradients = jax.value_and_grad(loss_fn)(part, x, value[rows])
        updates, opt_state = optimizer.update(gradients, opt_state, part)
        return optax.apply_updates(part, updates), opt_state, loss

    @jax.jit
    def learn(parts: Any, opt_states: Any, rng_key: chex.PRNGKey, positions: Any) -> tuple:
        def step(carry: tuple, key: chex.PRNGKey) -> tuple:
            done = {x: update(key, carry[0][x], carry[1][x], positions[x]) for x in carry[0]}
            parts, opt_states, losses = ({x: y[i] for x, y in done.items()} for i in range(3))
            return (parts, opt_states), losses

        keys = jax.random.split(rng_key, num_updates)
        (parts, opt_states), losses = jax.lax.scan(step, (parts, opt_states), keys)
        return parts, opt_states, jax.tree.map(jnp.mean, losses)

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
