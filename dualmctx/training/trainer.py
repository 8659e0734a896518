"""The trainer: iterations of self-play and learning, each of which is one jitted program."""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import chex
import jax
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
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.learner import (
    AugmentFn,
    Learner,
    check_augment,
    make_learn,
    make_optimizer,
)
from dualmctx.training.metrics import count_games, make_metrics
from dualmctx.training.replay import Replay, make_replay
from dualmctx.training.selfplay import PlayFn, SelfPlay, SelfPlayState, make_play
from dualmctx.training.targets import make_training_batch
from dualmctx.training.train_state import TrainState, make_init, partition_specs
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork

IterateFn = Callable[[TrainState], tuple[TrainState, dict[str, float]]]
"""`(state) -> (state, metrics)`: one iteration. It consumes the old state."""


class LoweredPrograms(NamedTuple):
    """The two programs of an iteration, lowered but not compiled.

    Attributes:
      play: self-play; it stores the positions in the replay buffer.
      learn: one pass of the learner.
    """

    play: jax.stages.Lowered
    learn: jax.stages.Lowered


class Trainer(NamedTuple):
    """The programs of a training run.

    Attributes:
      init: returns the initial state for a seed.
      compile: compiles the programs for states like the one given and returns `IterateFn`.
      shardings: the sharding of each array of a state, with the structure of a `TrainState`.
      lower: lowers the programs for states like the one given, without compiling them.
    """

    init: Callable[[int], TrainState]
    compile: Callable[[TrainState], IterateFn]
    shardings: TrainState
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
      **model_options: options of `make_model`, such as `compact_states`.

    Returns:
      The programs.

    Raises:
      ValueError: if options contradict each other or do not fit the devices.
    """
    check_augment(learner, augment_fn)
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
    augment_shard = functools.partial(_augment_sharded, shardings(mesh, SHARDED), augment_fn)
    learn = make_learn(network, optimizer, replay, learner, augment_fn=augment_shard)

    init = make_init(env, network, selfplay, play, replay, optimizer)
    specs = partition_specs(jax.eval_shape(init, jax.random.PRNGKey(0)))
    play_all = _make_play_all(play, replay, mesh, specs, num_games)

    def lower(state: TrainState) -> LoweredPrograms:
        params, rng_key = state.params, state.rng_key
        # The buffer and the state of the optimiser are updated in place.
        play_jit = jax.jit(play_all, donate_argnums=(2, 3))
        learn_jit = jax.jit(learn, donate_argnums=(0, 1), out_shardings=shardings(mesh, REPLICATED))
        return LoweredPrograms(
            play_jit.lower(params, rng_key, state.games, state.buffer_state),
            learn_jit.lower(params, state.opt_state, state.buffer_state, rng_key),
        )

    def compile_for(state: TrainState) -> IterateFn:
        playing, learning = (program.compile() for program in lower(state))
        return functools.partial(_iterate, playing, learning, selfplay, learner)

    sharding = shardings(mesh, specs)
    init_jit = jax.jit(init, out_shardings=sharding)
    return Trainer(lambda seed: init_jit(jax.random.PRNGKey(seed)), compile_for, sharding, lower)


def _make_play_all(
    play: PlayFn, replay: Replay, mesh: Mesh, specs: TrainState, num_games: int
) -> Callable[..., tuple]:
    """Returns a function with which every device plays its share of the games and stores them.

    The function is `(params, rng_key, games, buffer_state) -> (games, buffer_state, counts)`; it
    consumes the key.
    """

    def play_shard(params: Params, rng_keys: Any, games: SelfPlayState, buffer_state: Any) -> tuple:
        games, trajectory = play(params, rng_keys, games)
        buffer_state = replay.add(buffer_state, make_training_batch(trajectory))
        return games, buffer_state, total(count_games(trajectory))

    def play_all(
        params: Params, rng_key: chex.PRNGKey, games: SelfPlayState, buffer_state: Any
    ) -> tuple:
        in_specs = (specs.params, SHARDED, specs.games, specs.buffer_state)
        out_specs = (specs.games, specs.buffer_state, REPLICATED)
        rng_keys = jax.random.split(rng_key, num_games)
        return on_each(play_shard, mesh, in_specs, out_specs)(params, rng_keys, games, buffer_state)

    return play_all


def _augment_sharded(
    sharding: Any, augment_fn: AugmentFn | None, rng_key: chex.PRNGKey, batch: TrainingBatch
) -> TrainingBatch:
    """Shards a batch over the devices and augments it if there is an `augment_fn`."""
    batch = jax.lax.with_sharding_constraint(batch, sharding)
    return batch if augment_fn is None else augment_fn(rng_key, batch)


def _iterate(
    play: Any,
    learn: Any,
    selfplay: SelfPlay,
    learner: Learner,
    state: TrainState,
) -> tuple[TrainState, dict[str, float]]:
    rng_key, play_key, learn_key = jax.random.split(state.rng_key, 3)
    start = time.perf_counter()
    games, buffer_state, counts = jax.block_until_ready(
        play(state.params, play_key, state.games, state.buffer_state)
    )
    middle = time.perf_counter()
    params, opt_state, losses = jax.block_until_ready(
        learn(state.params, state.opt_state, buffer_state, learn_key)
    )
    end = time.perf_counter()
    iteration = state.iteration + 1
    state = TrainState(params, opt_state, buffer_state, games, rng_key, iteration)
    num_positions = selfplay.num_games * selfplay.num_steps
    return state, {
        **make_metrics(jax.device_get(counts), jax.device_get(losses)),
        "positions": num_positions,
        "replay_ratio": learner.num_updates * learner.batch_size / num_positions,
        "selfplay_seconds": middle - start,
        "learn_seconds": end - middle,
    }
