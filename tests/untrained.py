"""Untrained networks as files, for tests of commands."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.commands.train import settle_here
from dualmctx.commands.train_settings import read_request
from dualmctx.experiment.assemble import record_of
from dualmctx.models import search_memory
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.folder import create_run, read_config
from dualmctx.runs.network_record import build_network, with_architecture
from dualmctx.runs.saved_network import Trained, export_trained
from dualmctx.training import memory_budget
from dualmctx.training.config import Config
from dualmctx.training.trainer import Trainer, TrainState

TINY = ("--network.width", "4", "--network.num-blocks", "2", "--network.trunk", "mlp")


def parse_train(arguments: list[str]) -> tuple[str, Config]:
    """Returns the preset's name and the configuration of a command line of `dualmctx train`."""
    return settle_here(read_request(arguments, ""), "")[:2]


def random_params(network: Any, observation_shape: tuple[int, ...], seed: int = 1) -> Any:
    """Returns random parameters; the heads of a new network are zero."""
    observation = jnp.zeros((1, *observation_shape))
    shapes = jax.eval_shape(network.init, jax.random.PRNGKey(0), observation)
    draws = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(draws.normal(0, 0.5, x.shape), x.dtype), shapes)


def on_one_device(state: Any) -> Any:
    """Returns the shapes of a state, as those of a trainer."""
    [device] = jax.devices()[:1]
    sharding = jax.sharding.SingleDeviceSharding(device)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), state)


def make_fake_trainer(*_: Any, **__: Any) -> Trainer:
    """Stands for `make_trainer`: states have only an array, a key and the iteration."""

    def init(seed: int) -> TrainState:
        params = {"params": {"x": jnp.full((2, 3), seed, jnp.float32)}}
        return TrainState(params, (), (), (), jnp.zeros(2, jnp.uint32), jnp.int32(0))  # pyright: ignore

    def iterate(state: TrainState) -> tuple[TrainState, dict[str, float]]:
        params = jax.tree.map(lambda x: x * 3 + state.iteration, state.params)
        counts = {"games": 7, "positions": 64, "policy_loss_0": 0.5, "value_loss_0": 0.25}
        row = counts | {"total": params["params"]["x"].sum()}
        times = {"selfplay_seconds": 1.0, "learn_seconds": 1.0}
        return state._replace(params=params, iteration=state.iteration + 1), row | times

    return Trainer(init, lambda _: iterate, on_one_device(init(0)), Mock())


def predict_nothing(patch: Callable[..., Any]) -> None:
    """Lets the prediction of memory compile nothing; `patch` sets attributes as `setattr` does."""
    for module in (memory_budget, search_memory):
        patch(module, "temporary_bytes", lambda *_: 2**20)


def make_untrained(preset: str, *flags: str) -> Trained:
    """Makes a network with random parameters."""
    name, config = parse_train([preset, *TINY, *flags])
    record = record_of(name, config)
    env = games.make(record["game"], **record["game_parameters"])
    network = build_network(record, env)
    params = random_params(network, env.observation_shape)
    record = with_architecture(record, network)
    return Trained(env, network, params, 7, record)


def export_untrained(path: Path, preset: str, *flags: str) -> Path:
    export_trained(make_untrained(preset, *flags), path)
    return path


def assert_same_network(one: Trained, other: Trained) -> None:
    jax.tree.map(np.testing.assert_array_equal, one.params, other.params)
    assert (one.iteration, one.record) == (other.iteration, other.record)
    assert one.network == other.network
    assert (one.env.id, one.env.num_actions) == (other.env.id, other.env.num_actions)


def make_run(folder: Path, trained: Trained) -> Path:
    """Makes the folder of a run with two checkpoints, whose parameters are multiples."""
    run = create_run(folder, trained.record)
    checkpoints = open_checkpoints(run.checkpoints, config=read_config(folder))
    for step in (3, 7):
        params = jax.tree.map(lambda x, step=step: x * step, trained.params)
        checkpoints.save(step, {"params": params})
    checkpoints.wait()
    return folder
