"""Starts a run from the parameters of a trained network."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from dualmctx.distributed import devices
from dualmctx.errors import UserError
from dualmctx.experiment.multihost import gather, spread
from dualmctx.runs.network_record import describe_network
from dualmctx.runs.saved_network import Trained, load_trained
from dualmctx.training.config import Config
from dualmctx.training.trainer import Trainer, TrainState
from dualmctx.types import Environment, Params, PolicyValueNetwork


def load_initial_params(config: Config, env: Environment, network: PolicyValueNetwork) -> Params:
    """Loads the parameters from which a run starts, as NumPy arrays.

    The options of the two networks may differ where the shapes of the parameters do not. Of code
    outside this package, only the game and the network of the run are imported.

    Args:
      config: the configuration of the run. `init_from` is a folder, file or name as in
        `load_trained`; `FOLDER@ITERATION` names a checkpoint.
      env: the game of the run.
      network: the network of the run.

    Raises:
      ValueError: if there is no such network, it is for another game, or its parameters have other
        names or shapes.
    """
    source = str(config.init_from)
    trained = load_source(source, game=config.game, network=config.network.factory or ())
    if trained.env.id != env.id:
        raise UserError(
            f"init_from is {source}, a network for {trained.env.id}; the run needs one for {env.id}"
        )
    observation = jax.ShapeDtypeStruct((1, *env.observation_shape), np.float32)
    wanted = jax.eval_shape(network.init, jax.random.PRNGKey(0), observation)
    problem = _difference(wanted, trained.params)
    if problem is not None:
        raise UserError(
            f"init_from is {source}, whose parameters do not fit the network of the run: "
            f"{problem}{_other_options(network, trained)}"
        )
    leaves = [np.asarray(x) for x in jax.tree.leaves(trained.params)]
    return jax.tree.unflatten(jax.tree.structure(wanted), leaves)


def load_source(source: str, **known: Any) -> Trained:
    """Loads a network; `FOLDER@ITERATION` names a checkpoint.

    Args:
      source: a folder, file or name as in `load_trained`, or `FOLDER@ITERATION`.
      **known: options of `load_trained`.

    Raises:
      UserError: if there is no such network, or the iteration is not a number.
    """
    path, _, iteration = source.rpartition("@")
    if Path(source).exists() or not path:
        return load_trained(source, **known)
    if not iteration.isdecimal():
        raise UserError(f"the iteration after @ in {source} must be a whole number")
    return load_trained(path, int(iteration), **known)


def _difference(wanted: Params, found: Params) -> str | None:
    """Describes the first parameter that is missing, unknown or of another shape."""
    shapes, others = (
        {
            jax.tree_util.keystr(path, simple=True, separator="/"): f"{x.dtype} {list(x.shape)}"
            for path, x in jax.tree_util.tree_leaves_with_path(params)
        }
        for params in (wanted, found)
    )
    for name in sorted(shapes | others):
        own, other = shapes.get(name), others.get(name)
        if own is None or other is None:
            return f"{name} is {'unknown' if own is None else 'missing'}"
        if own != other:
            return f"{name} is {other}, not {own}"
    return None


def _other_options(network: PolicyValueNetwork, trained: Trained) -> str:
    """Names the fields in which the networks differ, as the remedy."""
    own, other = (describe_network(x).get("fields", {}) for x in (network, trained.network))
    names = sorted(name for name in own.keys() & other.keys() if own[name] != other[name])
    fields = ", ".join(f"{name} {other[name]} (here {own[name]})" for name in names)
    return f"; it has {fields}: choose the same --network options" if fields else ""


def with_params(state: TrainState, params: Params, trainer: Trainer) -> TrainState:
    """Replaces the parameters of an initial state; called by the coordinator only.

    The state of the optimiser does not depend on the initial parameters.
    """
    if jax.process_count() > 1:
        return spread(gather(state)._replace(params=params), trainer.shardings)
    return state._replace(params=devices.spread(params, trainer.shardings.params))
