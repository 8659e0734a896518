"""Training: an iteration of self-play and learning, each one jitted program."""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.distributed.devices import (
    REPLICATED,
    SHARDED,
    check_split,
    make_mesh,
    on_each,
    shardings,
    total,
)
from dualmctx.models.game_model import make_search_fn
from dualmctx.training.learner import AugmentFn, Learner, Losses, make_learn, make_optimizer
from dualmctx.training.replay import add, make_replay
from dualmctx.training.selfplay import SelfPlay, SelfPlayState, Trajectory, make_play, start_games
from dualmctx.training.targets import TrainingBatch, make_samples
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork


class TrainState(NamedTuple):
    """Everything that training goes on from.

    Attributes:
      params: the network's parameters.
      opt_state: the optimiser's state.
      buffer_state: the replay buffer.
      games: games in progress.
      rng_key: raw key, split anew in each iteration.
      iteration: scalar int32, iterations done.
    """

    params: Params
    opt_state: Any
    buffer_state: Any
    games: SelfPlayState
    rng_key: chex.PRNGKey
    iteration: chex.Array


IterateFn = Callable[[TrainState], tuple[TrainState, dict[str, float]]]


class Trainer(NamedTuple):
    """The programs of a training run.

    Attributes:
      init: makes the first state from a seed.
      compile: compiles for states like the one given and returns `iterate`, which plays and
        learns once: `(state) -> (state, metrics)`. It consumes the old state.
      shardings: how a state is spread over the devices, of the structure of a `TrainState`.
    """

    init: Callable[[int], TrainState]
    compile: Callable[[TrainState], IterateFn]
    shardings: TrainState


def make_trainer(
    env: Environment,
    network: PolicyValueNetwork,
    policy: Policy,
    selfplay: SelfPlay,
    learner: Learner,
    *,
    num_iterations: int,
    devices: Sequence[Any] | None = None,
    augment_fn: AugmentFn | None = None,
    **model_options: Any,
) -> Trainer:
    """Puts self-play, replay and learning together.

    Each device plays its share of the games and keeps their positions; each takes its share of
    every batch of the learner. The numbers of devices and processes change nothing but the order
    of sums: every game has keys of its own, and batches are drawn from all positions.

    Args:
      env: a game as `games.make` gives it.
      network: a `dualmctx.models.network.Network`.
      policy: the search variant, with its noise.
      selfplay: how games are played.
      learner: how the network learns.
      num_iterations: for the schedule of the learning rate.
      devices: which to use; by default all.
      augment_fn: changes a batch of positions into others of the same value, or `None`.
      **model_options: options of `make_model`, such as `compact_states`.

    Returns:
      The programs.

    Raises:
      ValueError: when settings do not fit each other or the devices, in one line.
    """
    num_games, num_added = selfplay.num_games, selfplay.num_games * selfplay.num_steps
    replay_ratio = learner.num_updates * learner.batch_size / num_added
    buffer = make_replay(learner.capacity, learner.batch_size, num_games, selfplay.num_steps)
    mesh = make_mesh(devices)
    check_split(mesh, num_games=num_games, batch_size=learner.batch_size)
    optimizer = make_optimizer(learner, num_iterations * learner.num_updates)
    search_fn = make_search_fn(env, network, policy, **model_options)
    play = make_play(env, search_fn, selfplay, reuse_capacity=policy.traits.reuse_capacity)
    change_fn = functools.partial(_split_batch, shardings(mesh, SHARDED), augment_fn)
    learn = make_learn(network, optimizer, buffer, learner, change_fn=change_fn)

    def init(rng_key: chex.PRNGKey) -> TrainState:
        params_key, games_key, rng_key = jax.random.split(rng_key, 3)
        keys = jax.random.split(games_key, num_games)
        games = start_games(env, keys, selfplay)
        params = network.init(params_key, games.state.observation[:1])
        steps = jax.eval_shape(play, params, keys, games)[1]
        sample = jax.tree.map(
            lambda x: jnp.zeros(x.shape[2:], x.dtype), jax.eval_shape(make_samples, steps)
        )
        return TrainState(
            params=params,
            opt_state=optimizer.init(params),
            buffer_state=buffer.init(sample),
            games=games,
            rng_key=rng_key,
            iteration=jnp.int32(0),
        )

    def play_share(params: Params, rng_keys: Any, games: SelfPlayState, buffer_state: Any) -> tuple:
        games, steps = play(params, rng_keys, games)
        buffer_state = add(buffer, buffer_state, make_samples(steps))
        return games, buffer_state, total(count_games(steps))

    specs = _specs(jax.eval_shape(init, jax.random.PRNGKey(0)))

    def play_step(
        params: Params, rng_key: chex.PRNGKey, games: SelfPlayState, buffer_state: Any
    ) -> tuple:
        given = (specs.params, SHARDED, specs.games, specs.buffer_state)
        returned = (specs.games, specs.buffer_state, REPLICATED)
        rng_keys = jax.random.split(rng_key, num_games)
        return on_each(play_share, mesh, given, returned)(params, rng_keys, games, buffer_state)

    def compile_for(state: TrainState) -> IterateFn:
        params, rng_key = state.params, state.rng_key
        # The buffer and the optimiser's state are updated in place.
        play_jit = jax.jit(play_step, donate_argnums=(2, 3))
        learn_jit = jax.jit(learn, donate_argnums=(0, 1), out_shardings=shardings(mesh, REPLICATED))
        play = play_jit.lower(params, rng_key, state.games, state.buffer_state).compile()
        learning = learn_jit.lower(params, state.opt_state, state.buffer_state, rng_key).compile()
        sizes = {"positions": num_added, "replay_ratio": replay_ratio}
        return functools.partial(_iterate, play, learning, sizes)

    spread = shardings(mesh, specs)
    init_jit = jax.jit(init, out_shardings=spread)
    return Trainer(lambda seed: init_jit(jax.random.PRNGKey(seed)), compile_for, spread)


def _specs(state: TrainState) -> TrainState:
    """Says which parts of a state are split over the devices."""
    specs = jax.tree.map(lambda _: REPLICATED, state)
    split = jax.tree.map(lambda _: SHARDED, (state.games, state.buffer_state.experience))
    return specs._replace(
        games=split[0], buffer_state=specs.buffer_state.replace(experience=split[1])
    )


def _split_batch(
    sharding: Any, augment_fn: AugmentFn | None, rng_key: chex.PRNGKey, samples: TrainingBatch
) -> TrainingBatch:
    """Has each device learn its share of a batch, augmented if asked for; consumes the key."""
    samples = jax.lax.with_sharding_constraint(samples, sharding)
    return samples if augment_fn is None else augment_fn(rng_key, samples)


def _iterate(
    play: Any, learn: Any, sizes: dict[str, float], state: TrainState
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
    metrics = _metrics(jax.device_get(counts), jax.device_get(losses))
    seconds = {"selfplay_seconds": middle - start, "learn_seconds": end - middle}
    return state, metrics | sizes | seconds


def count_games(steps: Trajectory) -> dict[str, chex.Array]:
    """Counts the games that `[T, B]` moves ended, each of them once.

    Returns:
      Scalars: `games` in all, and of these the `truncated` ones, the `draws` and the
      `wins_by_mover`, won by who moved last; `resign_tests` and `resign_errors`, see
      `SelfPlay.play_on_fraction`.
    """
    has_result = steps.is_end & ~steps.is_truncated
    return {
        "games": jnp.sum(steps.is_end),
        "truncated": jnp.sum(steps.is_truncated),
        "draws": jnp.sum(has_result & (steps.reward == 0)),
        "wins_by_mover": jnp.sum(has_result & (steps.reward > 0)),
        "resign_tests": jnp.sum(steps.is_resign_test),
        "resign_errors": jnp.sum(steps.is_resign_error),
    }


def _metrics(counts: dict[str, Any], losses: Losses) -> dict[str, float]:
    metrics: dict[str, float] = {name: int(count) for name, count in counts.items()}
    metrics["target_entropy"] = float(losses.target_entropy)
    for head in range(len(losses.policy)):
        metrics[f"policy_loss_{head}"] = float(losses.policy[head])
        metrics[f"value_loss_{head}"] = float(losses.value[head])
    return metrics
