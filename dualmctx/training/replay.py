"""Value targets, and the replay buffer: the latest positions, on the device."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import flashbax
import jax
import jax.numpy as jnp

from dualmctx.checks import check
from dualmctx.errors import UserError
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.selfplay import Trajectory


def propagate_rewards(reward: chex.Array, discount: chex.Array) -> tuple[chex.Array, chex.Array]:
    """Sums the rewards of the rest of the game, from the view of the player at each position.

    Formula, backwards in time: z_t = r_t + γ_t z_{t+1} and ρ_t = γ_t ρ_{t+1}, where γ is -1 if the
    player to move changes, +1 if the same player moves again, and 0 at the end of a game. After the
    last step z = 0 and ρ = 1. z is therefore the sum of the rewards up to the last step, and ρ is
    the factor of all later rewards.

    Args:
      reward: `[T, B]` reward of the player who moved.
      discount: `[T, B]` discount γ.

    Returns:
      `[T, B]` z; and `[T, B]` ρ, 0 where the game ends within the T steps.
    """

    def step_back(carry: tuple, step: tuple) -> tuple:
        value, remaining_discount = carry
        reward, discount = step
        value, remaining_discount = reward + discount * value, discount * remaining_discount
        return (value, remaining_discount), (value, remaining_discount)

    start = (jnp.zeros_like(reward[0]), jnp.ones_like(discount[0]))
    return jax.lax.scan(step_back, start, (reward, discount), reverse=True)[1]


def make_training_batch(trajectory: Trajectory) -> TrainingBatch:
    """Converts `[T, B]` moves of self-play to positions to learn from, with the same axes.

    The value target is the result of the game, if no random move follows the position. Truncated
    games have no result. The policy target is the weights of the search, even where a random move
    was played.

    Source: Silver et al. 2017 (AlphaGo Zero), "Self-play training pipeline".
    """
    positions, discount = trajectory.positions, trajectory.discount
    value, remaining_discount = propagate_rewards(trajectory.reward, discount)
    # A truncation propagates like a reward, but with the same sign for both players.
    stop = trajectory.is_truncated.astype(discount.dtype)
    is_truncated = propagate_rewards(stop, jnp.abs(discount))[0] > 0
    return positions._replace(
        value=value, remaining_discount=remaining_discount, is_truncated=is_truncated
    )


def propagate_outcome(batch: TrainingBatch, following: TrainingBatch) -> TrainingBatch:
    """Propagates the outcome of games in progress to older positions.

    A game that is longer than an iteration arrives in pieces. Without this function the first
    positions of long games would have no value target. Positions of finished games do not change.
    The `batch` has `[B, L]` older positions, and `following` the `[B, 1]` next one of each game.
    """
    is_open = batch.remaining_discount != 0
    return batch._replace(
        value=batch.value + batch.remaining_discount * following.value,
        remaining_discount=batch.remaining_discount * following.remaining_discount,
        is_truncated=batch.is_truncated | (is_open & following.is_truncated),
    )


class Replay(NamedTuple):
    """A replay buffer as three pure functions of its state, a pytree of arrays.

    Attributes:
      init: `(batch) -> state`: an empty buffer for positions like those of a `[T, B]` batch, of
        which only the shapes and dtypes are read.
      add: `(state, batch) -> state`: adds `[T, B]` positions to the rows of their games, and their
        outcomes to older positions. Rows are independent, so a device can add its share of them.
      sample: `(state, rng_key) -> batch`: samples `[batch_size]` positions uniformly, with
        replacement; consumes the key. The buffer must hold at least one position.
    """

    init: Callable[[TrainingBatch], Any]
    add: Callable[[Any, TrainingBatch], Any]
    sample: Callable[[Any, chex.PRNGKey], TrainingBatch]


def make_replay(*, capacity: int, batch_size: int, num_games: int, num_steps: int) -> Replay:
    """Returns a ring buffer of positions with one row of the latest moves per game.

    Args:
      capacity: number of positions, at least `num_games` times `num_steps`. Each of the parallel
        games gets an equal share; a remainder stays unused.
      batch_size: positions per sampled batch, at most `capacity`.
      num_games: B, the number of parallel games.
      num_steps: T, the moves of each game that are added at once.

    Returns:
      The buffer. Its state is that of flashbax's trajectory buffer.

    Raises:
      ValueError: if the buffer is too small.
    """
    if capacity < num_games * num_steps:
        raise UserError(
            f"capacity is {capacity}; it must hold at least the {num_games * num_steps} positions "
            "of one iteration (num_games * num_steps)"
        )
    remedy = f"at most the capacity of {capacity} positions"
    check(batch_size <= capacity, "batch_size", batch_size, remedy)
    buffer = flashbax.make_trajectory_buffer(
        add_batch_size=num_games,
        sample_batch_size=batch_size,
        sample_sequence_length=1,
        period=1,
        min_length_time_axis=1,
        max_length_time_axis=capacity // num_games,
    )

    def init(batch: TrainingBatch) -> Any:
        return buffer.init(jax.tree.map(lambda x: jnp.zeros(x.shape[2:], x.dtype), batch))

    # flashbax adds arrays of different ranks, which a program's settings of JAX may forbid.
    def add(state: Any, batch: TrainingBatch) -> Any:
        batch = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), batch)
        first = jax.tree.map(lambda x: x[:, :1], batch)
        state = state.replace(experience=propagate_outcome(state.experience, first))
        with jax.numpy_rank_promotion("allow"):
            return buffer.add(state, batch)

    def sample(state: Any, rng_key: chex.PRNGKey) -> TrainingBatch:
        with jax.numpy_rank_promotion("allow"):
            experience = buffer.sample(state, rng_key).experience
        return jax.tree.map(lambda x: x[:, 0], experience)

    return Replay(init, add, sample)
