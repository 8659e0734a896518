"""Positions from elsewhere, such as those of a data set, in place of self-play."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from dualmctx.distributed.devices import SHARDED, on_each, shardings
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.replay import Replay

PositionsFn = Callable[[int], TrainingBatch]
"""`(iteration) -> positions`: the `[num_games * num_steps]` positions that an iteration stores in
place of those of self-play, such as positions of a data set; iterations count from 0."""


def rows_of_iteration(
    buffer_state: Any, mesh: Mesh, num_games: int, num_steps: int
) -> TrainingBatch:
    """Returns the shapes of the `[B, T]` positions of an iteration, whose rows are sharded."""
    sharding = shardings(mesh, SHARDED)
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(
            (num_games, num_steps, *x.shape[2:]), x.dtype, sharding=sharding
        ),
        buffer_state.experience,
    )


def make_store_all(replay: Replay, mesh: Mesh, buffer_specs: Any) -> Callable[..., Any]:
    """Returns `(buffer_state, [B, T] batch) -> buffer_state`: each device stores its rows."""

    def store(buffer_state: Any, batch: TrainingBatch) -> Any:
        return replay.add(buffer_state, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), batch))

    return on_each(store, mesh, (buffer_specs, SHARDED), buffer_specs)


def make_gain(store: Any, positions: PositionsFn, row_shapes: TrainingBatch) -> Callable:
    """Returns a function with the interface of self-play that stores positions from elsewhere."""

    def gain(rng_key: chex.PRNGKey, state: Any) -> tuple:
        del rng_key
        found = positions(int(state.iteration))
        # The rows of a replay buffer continue games; these positions do not follow each other.
        found = found._replace(
            is_truncated=~found.has_value,
            remaining_discount=jnp.zeros_like(found.remaining_discount),
        )
        rows = jax.tree.map(
            lambda x, shape: jax.device_put(
                np.asarray(x, shape.dtype).reshape(shape.shape), shape.sharding
            ),
            found,
            row_shapes,
        )
        return state.games, store(state.buffer_state, rows), {"games": 0}

    return gain
