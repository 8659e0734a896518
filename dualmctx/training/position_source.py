"""Where an iteration gets its positions: from self-play, or given, such as those of a data set."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from dualmctx.distributed.devices import SHARDED, on_each, shardings
from dualmctx.errors import UserError
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.replay import Replay

GIVEN_AHEAD = 2
"""The iterations whose given positions wait in memory, so that learning does not wait for them."""
PositionsFn = Callable[[int], TrainingBatch]
"""`(iteration) -> positions`: the `[num_games * num_steps]` positions that an iteration stores in
place of those of self-play, such as positions of a data set; iterations count from 0."""
GainFn = Callable[[Any, chex.PRNGKey], tuple[Any, Any, dict[str, Any]]]
"""`(state, rng_key) -> (games, buffer_state, counts)`: stores the positions of an iteration in the
replay buffer, which it consumes with the games of the `TrainState`; also consumes the key. The
counts are those of `count_games`; there are none without self-play."""


class Source(NamedTuple):
    """A source of positions, before its program is compiled.

    Attributes:
      lower: `(state) -> lowered`: lowers the program for states like the one given.
      bind: `(compiled) -> GainFn`: returns the function that runs the compiled program.
    """

    lower: Callable[[Any], jax.stages.Lowered]
    bind: Callable[[Any], GainFn]


def given_source(
    positions: PositionsFn, size: tuple[int, int], replay: Replay, mesh: Mesh, buffer_specs: Any
) -> Source:
    """Returns a source of given positions: every device stores its share of them.

    Args:
      positions: gives the positions of each iteration.
      size: (B, T), the number of rows of the replay buffer, and the positions that each of them
        gets. Position b T + t of an iteration is the t-th of row b.
      replay: the replay buffer.
      mesh: the devices.
      buffer_specs: the partition of the state of the replay buffer.

    Returns:
      The source. Its `GainFn` raises a `ValueError` if an iteration has not B T positions.
    """
    sharding = shardings(mesh, SHARDED)

    def store(buffer_state: Any, rows: TrainingBatch) -> Any:
        return replay.add(buffer_state, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), rows))

    def lower(state: Any) -> jax.stages.Lowered:
        shapes = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((*size, *x.shape[2:]), x.dtype, sharding=sharding),
            state.buffer_state.experience,
        )
        store_all = on_each(store, mesh, (buffer_specs, SHARDED), buffer_specs)
        return jax.jit(store_all, donate_argnums=0).lower(state.buffer_state, shapes)

    def bind(compiled: Any) -> GainFn:
        def gain(state: Any, rng_key: chex.PRNGKey) -> tuple[Any, Any, dict[str, Any]]:
            del rng_key
            rows = _as_rows(positions(int(state.iteration)), size, state.buffer_state.experience)
            rows = jax.device_put(rows, sharding)
            return state.games, compiled(state.buffer_state, rows), {}

        return gain

    return Source(lower, bind)


def _as_rows(
    positions: TrainingBatch, size: tuple[int, int], experience: TrainingBatch
) -> TrainingBatch:
    """Lays out positions as `[B, T]`, with the dtypes of the replay buffer."""
    number = len(positions.value)
    if number != size[0] * size[1]:
        raise UserError(
            f"positions gave {number} positions; it must give {size[0] * size[1]}, "
            "num_games * num_steps"
        )
    # A row of the buffer continues a game, but these positions do not follow each other.
    positions = positions._replace(
        is_truncated=~positions.has_value,
        remaining_discount=jnp.zeros_like(positions.remaining_discount),
    )
    return jax.tree.map(
        lambda x, kept: jnp.asarray(x, kept.dtype).reshape(*size, *x.shape[1:]),
        positions,
        experience,
    )
