"""The training of an algorithm in a game, in steps as counted by the authors of the paper."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax

import games
from dualmctx.distributed.devices import spread
from dualmctx.experiment.assemble import build_trainer
from dualmctx.experiment.evals import EvalFn, make_evals
from dualmctx.experiment.run_record import record_of
from dualmctx.models.search_fn import make_search_fn
from dualmctx.reproduction.experiments import Algorithm, GameRow, Size
from dualmctx.runs.folder import CONFIG, RunFolder, create_run, reopen_run
from dualmctx.runs.network_record import build_network, with_architecture
from dualmctx.training.config import Config, EvalConfig, NetworkOptions
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.training.trainer import Trainer, TrainState
from dualmctx.types import Environment, PolicyValueNetwork

Row = dict[str, Any]
"""The metrics of a step, by name."""

StepFn = Callable[[TrainState], tuple[TrainState, Row]]
"""`(state) -> (state, row)`: one step. It consumes the old state."""


class TrainingSetup(NamedTuple):
    """An algorithm, ready to be trained in a game.

    Attributes:
      name: the name of the algorithm.
      env: the game, as `games.make` returns it.
      network: the network of the algorithm.
      config: the configuration of training, except the seed.
      size: the size of the experiment.
      trainer: the programs of training.
    """

    name: str
    env: Environment
    network: PolicyValueNetwork
    config: Config
    size: Size
    trainer: Trainer

    @property
    def model_options(self) -> dict[str, Any]:
        """Options of `make_model`."""
        return self.config.network.model_kwargs()

    def record(self, seed: int) -> dict[str, Any]:
        """Returns the content of the `config.json` of a run."""
        record = record_of(self.name, dataclasses.replace(self.config, seed=seed))
        return with_architecture(record, self.network)

    def open_folder(self, seed: int, path: Path) -> RunFolder:
        """Opens the folder of a run, or creates it.

        Raises:
          ValueError: if the folder holds another run.
        """
        record = self.record(seed)
        if not (path / CONFIG).exists():
            return create_run(path, record)
        return reopen_run(path, record)


def make_config(algorithm: Algorithm, row: GameRow, size: Size) -> Config:
    """Returns the configuration with which an algorithm is trained in a game.

    Raises:
      ValueError: if an option is out of range.
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


def make_setup(name: str, algorithm: Algorithm, row: GameRow, size: Size) -> TrainingSetup:
    """Combines an algorithm and a game; compiles nothing.

    A step is an iteration of the trainer: `size.positions` new positions, then as many optimiser
    steps as there are batches in the buffer. That number grows until the buffer is full.

    Raises:
      ValueError: if the size contradicts itself or does not fit the game.
    """
    config = make_config(algorithm, row, size)
    env = games.make(row.game)
    network = build_network(record_of(name, config), env)
    trainer = build_trainer(config, env, network, size.passes)
    return TrainingSetup(name, env, network, config, size, trainer)


def to_device(setup: TrainingSetup, state: TrainState) -> TrainState:
    """Copies a state to the device."""
    return spread(jax.device_get(state), setup.trainer.shardings)


def compile_step(setup: TrainingSetup, state: TrainState) -> StepFn:
    """Compiles a training step for states like the one given.

    Returns:
      The step. Its row has the number of games that ended, of positions and of optimiser steps, the
      losses of the final head in the last pass over the buffer, and the seconds of self-play and of
      learning.
    """
    iterate = setup.trainer.compile(state)
    # The first call of a program takes longer, so it is made here, outside any reported time.
    iterate(to_device(setup, state))

    def step(state: TrainState) -> tuple[TrainState, Row]:
        state, metrics = iterate(state)
        number, head = int(state.iteration), len(setup.network.head_depths) - 1
        return state, {
            "iteration": number,
            "games": metrics["games"],
            "positions": metrics["positions"],
            "updates": setup.size.passes(number) * setup.config.learner.num_updates,
            "selfplay_seconds": metrics["selfplay_seconds"],
            "learn_seconds": metrics["learn_seconds"],
            "policy_loss": metrics[f"policy_loss_{head}"],
            "value_loss": metrics[f"value_loss_{head}"],
        }

    return step


def make_eval(setup: TrainingSetup) -> EvalFn | None:
    """Returns the eval of a checkpoint against the exact solution, or `None` if there is none."""
    if not games.is_solvable(setup.env):
        return None
    policy = setup.config.search.for_evaluation()
    search_fn = make_search_fn(setup.env, setup.network, policy, **setup.model_options)
    (eval_fn,), *_ = make_evals(setup.env, setup.network, search_fn, EvalConfig())
    return eval_fn
