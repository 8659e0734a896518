"""Training: an iteration of self-play and learning, each one jitted program."""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.learner import Learner, Losses, make_learn, make_optimizer
from dualmctx.model import make_search_fn
from dualmctx.replay import flatten, make_replay
from dualmctx.selfplay import Games, SelfPlay, Steps, make_play, start_games
from dualmctx.targets import make_samples
from dualmctx.types import Params, Policy


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
    games: Games
    rng_key: chex.PRNGKey
    iteration: chex.Array


IterateFn = Callable[[TrainState], tuple[TrainState, dict[str, float]]]


class Trainer(NamedTuple):
    """The programs of a training run.

    Attributes:
      init: makes the first state from a seed.
      compile: compiles for states like the one given and returns `iterate`, which plays and
        learns once: `(state) -> (state, metrics)`. It consumes the old state.
    """

    init: Callable[[int], TrainState]
    compile: Callable[[TrainState], IterateFn]


def make_trainer(
    env: Any,
    network: Any,
    policy: Policy,
    selfplay: SelfPlay,
    learner: Learner,
    *,
    num_iterations: int,
    **model_options: Any,
) -> Trainer:
    """Puts self-play, replay and learning together.

    Args:
      env: a game as `games.make` gives it.
      network: a `dualmctx.network.Network`.
      policy: the search variant, with its noise.
      selfplay: how games are played.
      learner: how the network learns.
      num_iterations: for the schedule of the learning rate.
      **model_options: options of `make_model`, such as `compact_states`.

    Returns:
      The programs.

    Raises:
      ValueError: when settings do not fit each other, in one line.
    """
    num_added = selfplay.num_games * selfplay.num_steps
    buffer = make_replay(learner.capacity, learner.batch_size, num_added)
    optimizer = make_optimizer(learner, num_iterations * learner.num_updates)
    search_fn = make_search_fn(env, network, policy, **model_options)
    # Not every policy goes on from a tree.
    kept_nodes = getattr(policy, "kept_nodes", 0)
    play = make_play(env, search_fn, selfplay, kept_nodes=kept_nodes)
    learn = make_learn(network, optimizer, buffer, learner)

    @jax.jit
    def init(rng_key: chex.PRNGKey) -> TrainState:
        params_key, games_key, rng_key = jax.random.split(rng_key, 3)
        games = start_games(env, games_key, selfplay, selfplay.num_games)
        params = network.init(params_key, games.state.observation[:1])
        steps = jax.eval_shape(play, params, rng_key, games)[1]
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

    def play_step(params: Params, rng_key: chex.PRNGKey, games: Games, buffer_state: Any) -> tuple:
        games, steps = play(params, rng_key, games)
        buffer_state = buffer.add(buffer_state, flatten(make_samples(steps)))
        return games, buffer_state, _count(steps)

    def compile_for(state: TrainState) -> IterateFn:
        params, rng_key = state.params, state.rng_key
        # The buffer and the optimiser's state are updated in place.
        play_jit = jax.jit(play_step, donate_argnums=(2, 3))
        learn_jit = jax.jit(learn, donate_argnums=(0, 1))
        play = play_jit.lower(params, rng_key, state.games, state.buffer_state).compile()
        learning = learn_jit.lower(params, state.opt_state, state.buffer_state, rng_key).compile()
        return functools.partial(_iterate, play, learning, num_added)

    return Trainer(lambda seed: init(jax.random.PRNGKey(seed)), compile_for)


def _iterate(
    play: Any, learn: Any, num_added: int, state: TrainState
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
    return state, metrics | {"positions": num_added} | seconds


def _count(steps: Steps) -> dict[str, chex.Array]:
    return {
        "games": jnp.sum(steps.is_end),
        "draws": jnp.sum(steps.is_end & (steps.reward == 0)),
        "wins_by_mover": jnp.sum(steps.is_end & (steps.reward > 0)),
    }


def _metrics(counts: dict[str, Any], losses: Losses) -> dict[str, float]:
    metrics: dict[str, float] = {name: int(count) for name, count in counts.items()}
    for head in range(len(losses.policy)):
        metrics[f"policy_loss_{head}"] = float(losses.policy[head])
        metrics[f"value_loss_{head}"] = float(losses.value[head])
    return metrics
