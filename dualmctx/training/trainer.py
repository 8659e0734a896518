"""The trainer: iterations of self-play, or of given positions, and learning: a program each."""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import chex
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from dualmctx.checks import check_count
from dualmctx.distributed.devices import (
    REPLICATED,
    SHARDED,
    check_split,
    make_mesh,
    on_each,
    shardings,
    total,
)
from dualmctx.models.search_fn import make_search_fn
from dualmctx.training.batch import PositionsFn, TrainingBatch, as_rows
from dualmctx.training.learner import (
    AugmentFn,
    Learner,
    check_augment,
    make_learn,
    make_optimizer,
)
from dualmctx.training.replay import Replay, make_replay, make_training_batch
from dualmctx.training.selfplay import (
    PlayFn,
    SelfPlay,
    SelfPlayState,
    Trajectory,
    make_play,
    start_games,
)
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork


class TrainState(NamedTuple):
    """The complete state of training, as a checkpoint holds it.

    Attributes:
      params: the parameters of the network.
      opt_state: the state of the optimiser.
      buffer_state: the replay buffer.
      games: the games in progress.
      rng_key: raw key, split in each iteration.
      iteration: scalar int32, number of completed iterations.
    """

    params: Params
    opt_state: Any
    buffer_state: Any
    games: SelfPlayState
    rng_key: chex.PRNGKey
    iteration: chex.Array


def make_init(
    env: Environment,
    network: PolicyValueNetwork,
    selfplay: SelfPlay,
    play: PlayFn,
    replay: Replay,
    optimizer: optax.GradientTransformation,
) -> Callable[[chex.PRNGKey], TrainState]:
    """Returns a function that makes the initial state from a key, which is consumed."""

    def init(rng_key: chex.PRNGKey) -> TrainState:
        params_key, games_key, rng_key = jax.random.split(rng_key, 3)
        keys = jax.random.split(games_key, selfplay.num_games)
        games = start_games(env, keys, selfplay)
        params = network.init(params_key, games.state.observation[:1])
        trajectory = jax.eval_shape(play, params, keys, games)[1]
        batch = jax.eval_shape(make_training_batch, trajectory)
        return TrainState(
            params=params,
            opt_state=optimizer.init(params),
            buffer_state=replay.init(batch),
            games=games,
            rng_key=rng_key,
            iteration=jnp.int32(0),
        )

    return init


def partition_specs(state: TrainState) -> TrainState:
    """Returns the partition of each array: games and positions are sharded, others replicated."""
    specs = jax.tree.map(lambda _: REPLICATED, state)
    games, experience = jax.tree.map(
        lambda _: SHARDED, (state.games, state.buffer_state.experience)
    )
    buffer_state = specs.buffer_state.replace(experience=experience)
    return specs._replace(games=games, buffer_state=buffer_state)


def count_games(trajectory: Trajectory) -> dict[str, chex.Array]:
    """Counts the games that ended within `[T, B]` moves.

    Returns:
      Scalars: `games`, the number of games that ended; among them, `truncated`, `draws` and
      `wins_by_mover` (games won by the player who moved last), and `resign_tests` and
      `resign_errors`, see `SelfPlay.play_on_fraction`.
    """
    has_result = trajectory.is_end & ~trajectory.is_truncated
    return {
        "games": jnp.sum(trajectory.is_end),
        "truncated": jnp.sum(trajectory.is_truncated),
        "draws": jnp.sum(has_result & (trajectory.reward == 0)),
        "wins_by_mover": jnp.sum(has_result & (trajectory.reward > 0)),
        "resign_tests": jnp.sum(trajectory.is_resign_test),
        "resign_errors": jnp.sum(trajectory.is_resign_error),
    }


IterateFn = Callable[[TrainState], tuple[TrainState, dict[str, float]]]
"""`(state) -> (state, metrics)`: one iteration. It consumes the old state."""


class LoweredPrograms(NamedTuple):
    """The two programs of an iteration, lowered but not compiled.

    Attributes:
      play: self-play; it stores the positions in the replay buffer. With positions from elsewhere,
        it only stores them.
      learn: one pass of the learner.
    """

    play: jax.stages.Lowered
    learn: jax.stages.Lowered


class Trainer(NamedTuple):
    """The programs of a training run.

    Attributes:
      init: returns the initial state for a seed.
      compile: compiles the programs for states like the one given and returns `IterateFn`.
      shapes: the shape, dtype and sharding of each array of a state.
      lower: lowers the programs for states like the one given, without compiling them.
    """

    init: Callable[[int], TrainState]
    compile: Callable[[TrainState], IterateFn]
    shapes: TrainState
    lower: Callable[[TrainState], LoweredPrograms]


def make_trainer(
    env: Environment,
    network: PolicyValueNetwork,
    policy: Policy,
    selfplay: SelfPlay,
    learner: Learner,
    *,
    num_iterations: int | None = None,
    optimizer: optax.GradientTransformation | None = None,
    devices: Sequence[Any] | None = None,
    augment_fn: AugmentFn | None = None,
    positions: PositionsFn | None = None,
    **model_options: Any,
) -> Trainer:
    """Combines self-play, replay and learning.

    Each device plays an equal share of the games, stores their positions and learns an equal share
    of every batch. The numbers of devices and processes affect only the order of floating-point
    sums: every game has its own keys, and batches are sampled from all positions.

    Args:
      env: a game as `games.make` returns it.
      network: a `dualmctx.models.network.Network`.
      policy: the search variant, with its noise.
      selfplay: options of self-play.
      learner: options of the learner.
      num_iterations: length of the run, for the schedule of the learning rate; needed unless there
        is an `optimizer`.
      optimizer: an optimiser of optax, in place of `make_optimizer(learner, ...)`.
      devices: the devices to use; by default all.
      augment_fn: transforms each batch, keeping its values; `None` leaves batches unchanged. It is
        needed if `learner.augment` is true, and used if it is not.
      positions: gives each iteration its positions in place of self-play. Then no game is played,
        and `learner.search_value_weight` has no effect, as the positions have no search.
      **model_options: options of `make_model`, such as `compact_states`.

    Returns:
      The programs.

    Raises:
      ValueError: if options contradict each other or do not fit the devices.
    """
    check_augment(learner, augment_fn)
    if positions is not None:
        learner = dataclasses.replace(learner, search_value_weight=0.0)
    num_games = selfplay.num_games
    replay = make_replay(
        capacity=learner.capacity,
        batch_size=learner.batch_size,
        num_games=num_games,
        num_steps=selfplay.num_steps,
    )
    mesh = make_mesh(devices)
    check_split(mesh, num_games=num_games, batch_size=learner.batch_size)
    if optimizer is None:
        check_count("num_iterations", num_iterations, 1)
        optimizer = make_optimizer(learner, cast(int, num_iterations) * learner.num_updates)
    search_fn = make_search_fn(env, network, policy, **model_options)
    play = make_play(env, search_fn, selfplay, reuse_capacity=policy.traits.reuse_capacity)

    def augment_shard(rng_key: chex.PRNGKey, batch: TrainingBatch) -> TrainingBatch:
        batch = jax.lax.with_sharding_constraint(batch, shardings(mesh, SHARDED))
        return batch if augment_fn is None else augment_fn(rng_key, batch)

    learn = make_learn(network, optimizer, replay, learner, augment_fn=augment_shard)
    init = make_init(env, network, selfplay, play, replay, optimizer)
    shapes = jax.eval_shape(init, jax.random.PRNGKey(0))
    specs = partition_specs(shapes)
    sharding = shardings(mesh, specs)
    gain_jit = _make_gain(play if positions is None else None, replay, mesh, specs, num_games)
    # The state of the optimiser is updated in place.
    learn_jit = jax.jit(learn, donate_argnums=(0, 1), out_shardings=shardings(mesh, REPLICATED))
    size = (num_games, selfplay.num_steps)
    shapes_of, inputs_of = _make_inputs(positions, size, shardings(mesh, SHARDED))

    def lower(state: TrainState) -> LoweredPrograms:
        return LoweredPrograms(
            gain_jit.lower(state.params, shapes_of(state), state.games, state.buffer_state),
            learn_jit.lower(state.params, state.opt_state, state.buffer_state, state.rng_key),
        )

    def compile_for(state: TrainState) -> IterateFn:
        programs = [program.compile() for program in lower(state)]
        return functools.partial(_iterate, *programs, inputs_of, selfplay, learner)

    shapes = jax.tree.map(
        lambda x, own: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=own), shapes, sharding
    )
    init_jit = jax.jit(init, out_shardings=sharding)
    return Trainer(lambda seed: init_jit(jax.random.PRNGKey(seed)), compile_for, shapes, lower)


def _make_gain(
    play: PlayFn | None, replay: Replay, mesh: Mesh, specs: TrainState, num_games: int
) -> Any:
    """Returns the program that stores the positions of an iteration in the replay buffer.

    `(params, inputs, games, buffer_state) -> (games, buffer_state, counts)`, where each device
    stores its share. The inputs are the key of self-play or, if `play` is `None`, `[B, T]` given
    positions, which have no counts. Games and buffer are updated in place.
    """

    def gain(params: Params, inputs: Any, games: SelfPlayState, buffer_state: Any) -> tuple:
        if play is None:
            batch, counts = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), inputs), {}
        else:
            games, trajectory = play(params, inputs, games)
            batch, counts = make_training_batch(trajectory), total(count_games(trajectory))
        return games, replay.add(buffer_state, batch), counts

    def gain_all(params: Params, inputs: Any, games: SelfPlayState, buffer_state: Any) -> tuple:
        inputs = inputs if play is None else jax.random.split(inputs, num_games)
        in_specs = (specs.params, SHARDED, specs.games, specs.buffer_state)
        out_specs = (specs.games, specs.buffer_state, REPLICATED)
        return on_each(gain, mesh, in_specs, out_specs)(params, inputs, games, buffer_state)

    return jax.jit(gain_all, donate_argnums=(2, 3))


def _make_inputs(
    positions: PositionsFn | None, size: tuple[int, int], sharding: Any
) -> tuple[Callable[[TrainState], Any], Callable[[TrainState, chex.PRNGKey], Any]]:
    """Returns functions for the inputs of `_make_gain`: their shapes, and those of an iteration."""
    if positions is None:
        return lambda state: state.rng_key, lambda state, rng_key: rng_key

    def shapes_of(state: TrainState) -> Any:
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((*size, *x.shape[2:]), x.dtype, sharding=sharding),
            state.buffer_state.experience,
        )

    def inputs_of(state: TrainState, rng_key: chex.PRNGKey) -> Any:
        del rng_key
        rows = as_rows(positions(int(state.iteration)), size, state.buffer_state.experience)
        return jax.device_put(rows, sharding)

    return shapes_of, inputs_of


def _iterate(
    gain: Any,
    learn: Any,
    inputs_of: Callable[[TrainState, chex.PRNGKey], Any],
    selfplay: SelfPlay,
    learner: Learner,
    state: TrainState,
) -> tuple[TrainState, dict[str, float]]:
    rng_key, play_key, learn_key = jax.random.split(state.rng_key, 3)
    start = time.perf_counter()
    inputs = inputs_of(state, play_key)
    games, buffer_state, counts = jax.block_until_ready(
        gain(state.params, inputs, state.games, state.buffer_state)
    )
    middle = time.perf_counter()
    params, opt_state, losses = jax.block_until_ready(
        learn(state.params, state.opt_state, buffer_state, learn_key)
    )
    end = time.perf_counter()
    iteration = state.iteration + 1
    state = TrainState(params, opt_state, buffer_state, games, rng_key, iteration)
    num_positions = selfplay.num_games * selfplay.num_steps
    counts, losses = jax.device_get((counts, losses))
    metrics: dict[str, float] = {name: int(x) for name, x in counts.items()}
    metrics["target_entropy"] = float(losses.target_entropy)
    for head, policy_loss in enumerate(losses.policy):
        metrics[f"policy_loss_{head}"] = float(policy_loss)
        metrics[f"value_loss_{head}"] = float(losses.value[head])
    return state, {
        **metrics,
        "positions": num_positions,
        "replay_ratio": learner.num_updates * learner.batch_size / num_positions,
        "selfplay_seconds": middle - start,
        "learn_seconds": end - middle,
    }
