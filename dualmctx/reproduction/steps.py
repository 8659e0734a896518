"""A training step as the paper's authors count it: new positions, then a pass over the buffer."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

import games
from dualmctx.experiment.assemble import build_trainer, make_evals, record_of
from dualmctx.experiment.evals import EvalFn
from dualmctx.models.game_model import make_search_fn
from dualmctx.reproduction.experiments import Algorithm, GameRow, Size
from dualmctx.runs.saved_network import build_network
from dualmctx.training.config import Config, EvalConfig, NetworkOptions
from dualmctx.training.learner import Learner, Losses, make_learn, make_optimizer
from dualmctx.training.replay import add, make_replay
from dualmctx.training.selfplay import SelfPlay, make_play
from dualmctx.training.targets import make_samples
from dualmctx.training.trainer import TrainState
from dualmctx.types import Environment, PolicyValueNetwork

Row = dict[str, Any]
StepFn = Callable[[TrainState], tuple[TrainState, Row]]


class Learning(NamedTuple):
    """An algorithm that learns a game.

    Attributes:
      name: of the algorithm.
      env: the game, as `games.make` gives it.
      network: of the algorithm.
      algorithm: who learns.
      config: how it trains, but for the seed.
      size: of the experiment.
      init: makes the state of training before the first step, from a seed.
    """

    name: str
    env: Environment
    network: PolicyValueNetwork
    algorithm: Algorithm
    config: Config
    size: Size
    init: Callable[[int], TrainState]

    @property
    def options(self) -> dict[str, Any]:
        """Options of `make_model`."""
        return self.config.network.model_kwargs()

    def record(self, seed: int) -> dict[str, Any]:
        """Returns what the `config.json` of a run holds."""
        return record_of(self.name, dataclasses.replace(self.config, seed=seed))


def make_config(algorithm: Algorithm, row: GameRow, size: Size) -> Config:
    """Configures how an algorithm learns a game.

    Raises:
      ValueError: when an option is out of range, in one line.
    """
    return Config(
        game=row.game,
        search=algorithm.policy,
        network=NetworkOptions(
            width=size.width,
            num_blocks=algorithm.depths[-1],
            head_depths=algorithm.depths,
            kept_activations="float32" if algorithm.keep_activations else "none",
        ),
        selfplay=SelfPlay(
            num_games=size.num_games,
            num_steps=size.positions // size.num_games,
            temperature_plies=row.temperature_plies,
        ),
        learner=Learner(
            learning_rate=size.learning_rate,
            batch_size=size.batch_size,
            num_updates=size.positions // size.batch_size,
            capacity=size.positions * size.buffer_steps,
        ),
        num_iterations=size.steps,
        devices=1,
    )


def make_learning(name: str, algorithm: Algorithm, row: GameRow, size: Size) -> Learning:
    """Puts an algorithm and a game together; nothing is compiled yet.

    Raises:
      ValueError: when sizes do not fit, in one line.
    """
    config = make_config(algorithm, row, size)
    env = games.make(row.game)
    network = build_network(record_of(name, config), env)
    trainer = build_trainer(config, env, network)
    return Learning(
        name, env, network, algorithm, config, size, lambda seed: on_device(trainer.init(seed))
    )


def on_device(state: TrainState) -> TrainState:
    """Copies a state to the device as `compile_step` takes it."""
    return jax.tree.map(jnp.array, jax.device_get(state))


def compile_step(learning: Learning, state: TrainState) -> StepFn:
    """Compiles a training step for states like the one given.

    A step plays until there are `size.positions` new positions, then takes as many optimiser steps
    as there are batches in the buffer. That number grows until the buffer is full; one program of a
    step's own share is run so often that nothing is compiled anew.

    Args:
      learning: who learns what.
      state: of training.

    Returns:
      `(state) -> (state, row)`, which consumes the old state. The row says what was played and
      learned, and the seconds of both.
    """
    config, size = learning.config, learning.size
    search_fn = make_search_fn(learning.env, learning.network, config.search, **learning.options)
    play_fn = make_play(learning.env, search_fn, config.selfplay)
    buffer = make_replay(
        config.learner.capacity, size.batch_size, size.num_games, config.selfplay.num_steps
    )
    passes = sum(map(size.passes, range(1, size.steps + 1)))
    optimizer = make_optimizer(config.learner, passes * config.learner.num_updates)
    learn_fn = make_learn(learning.network, optimizer, buffer, config.learner)

    def play(params: Any, rng_key: chex.PRNGKey, games_: Any, buffer_state: Any) -> tuple:
        rng_keys = jax.random.split(rng_key, size.num_games)
        games_, moves = play_fn(params, rng_keys, games_)
        buffer_state = add(buffer, buffer_state, make_samples(moves))
        return games_, buffer_state, jnp.sum(moves.is_end)

    playing = jax.jit(play, donate_argnums=(2, 3)).lower(
        state.params, state.rng_key, state.games, state.buffer_state
    )
    learned = jax.jit(learn_fn, donate_argnums=(0, 1)).lower(
        state.params, state.opt_state, state.buffer_state, state.rng_key
    )
    step = _stepper(playing.compile(), learned.compile(), size)
    # What happens in a first call only is in no time that is reported.
    step(on_device(state))
    return step


def _stepper(play: Any, learn: Any, size: Size) -> StepFn:
    def step(state: TrainState) -> tuple[TrainState, Row]:
        number = int(state.iteration) + 1
        rng_key, play_key, learn_key = jax.random.split(state.rng_key, 3)
        # Listed here, as taking an array apart compiles something for each length.
        keys = jax.block_until_ready(list(jax.random.split(learn_key, size.passes(number))))
        begin = time.perf_counter()
        games_, buffer_state, ended = jax.block_until_ready(
            play(state.params, play_key, state.games, state.buffer_state)
        )
        middle = time.perf_counter()
        params, opt_state, losses = (
            state.params,
            state.opt_state,
            Losses(jnp.zeros(1), jnp.zeros(1), jnp.zeros(())),
        )
        for key in keys:
            params, opt_state, losses = learn(params, opt_state, buffer_state, key)
        jax.block_until_ready(params)
        end = time.perf_counter()
        row = {
            "iteration": number,
            "games": int(ended),
            "positions": size.positions,
            "updates": len(keys) * (size.positions // size.batch_size),
            "selfplay_seconds": middle - begin,
            "learn_seconds": end - middle,
            # Of the step's last pass and the final head.
            "policy_loss": float(losses.policy[-1]),
            "value_loss": float(losses.value[-1]),
        }
        iteration = jnp.int32(number)
        return TrainState(params, opt_state, buffer_state, games_, rng_key, iteration), row

    return step


def make_eval(learning: Learning) -> EvalFn | None:
    """Makes the exam of a checkpoint against the exact solution, `None` where there is none."""
    if not games.is_solvable(learning.env):
        return None
    policy = learning.config.search.for_evaluation()
    search_fn = make_search_fn(learning.env, learning.network, policy, **learning.options)
    (some,), *_ = make_evals(learning.env, learning.network, search_fn, EvalConfig())
    return some
