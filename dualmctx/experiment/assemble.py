"""Assembles a training run from its configuration, and loads the parameters it starts from."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.checks import check, show
from dualmctx.distributed.devices import choose_devices, share
from dualmctx.errors import UserError
from dualmctx.experiment.evals import EvalFn, make_evals
from dualmctx.experiment.from_games import LearnedGames, open_games
from dualmctx.experiment.multihost import coordinate, gather
from dualmctx.models.network_check import check_network
from dualmctx.models.search_fn import make_search_fn
from dualmctx.runs.array_file import by_name, fit_arrays
from dualmctx.runs.checkpoint import Checkpoints, copy_to_host, open_checkpoints
from dualmctx.runs.folder import (
    RunFolder,
    create_run,
    default_folder,
    read_config,
    reopen_run,
    require_iterations,
    to_dict,
)
from dualmctx.runs.network_record import build_network, describe_network, with_architecture
from dualmctx.runs.saved_network import Trained, load_trained
from dualmctx.runs.saved_policy import search_record
from dualmctx.training.batch import PositionsFn
from dualmctx.training.config import Config, RunConfig
from dualmctx.training.learner import make_augment
from dualmctx.training.memory_budget import TrainingMemory, check_memory
from dualmctx.training.trainer import Trainer, make_trainer
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork

# Fields that only say where a run executes. The record holds these fixed values instead of the
# actual ones, so that a run may be resumed elsewhere.
_PLACEHOLDERS: dict[str, Any] = {"resume": False} | dict.fromkeys(
    ("out", "wandb", "memory_limit", "devices", "coordinator", "num_processes", "process_id")
)


def record_of(name: str, config: Config) -> dict[str, Any]:
    """Returns the content of `config.json`, without the fields that say where the run executes."""
    record: dict[str, Any] = to_dict(dataclasses.replace(config, **_PLACEHOLDERS))
    record["preset"] = name
    search, separate_trunks = config.search, config.network.separate_trunks
    record["search"] = search_record(search)
    record["network"]["num_heads"] = len(search.heads)
    if separate_trunks is None:
        record["network"]["separate_trunks"] = search.traits.separate_trunks
    return record


class Run(NamedTuple):
    """An assembled training run.

    Attributes:
      config: its configuration.
      name: the name of the preset.
      record: the content of `config.json`.
      num_actions: A, the number of actions of the game.
      folder: its folder.
      checkpoints: its checkpoints.
      trainer: initialises, compiles and runs the iterations.
      evals: run every few iterations.
      final_evals: run once, at the end.
      num_positions: the numbers of positions in the exact solution, for the summary.
      memory: the predicted memory per device.
      learned: the data set that is learned; `None` for self-play.
      initial_params: the parameters to start from, as NumPy arrays; `None` for random ones, and if
        the run has a checkpoint.
    """

    config: Config
    name: str
    record: dict[str, Any]
    num_actions: int
    folder: RunFolder
    checkpoints: Checkpoints
    trainer: Trainer
    evals: tuple[EvalFn, ...]
    final_evals: tuple[EvalFn, ...]
    num_positions: dict[str, int]
    memory: TrainingMemory
    learned: LearnedGames | None = None
    initial_params: Params | None = None


def assemble(name: str, config: Config) -> Run:
    """Assembles a run of a preset, before compilation. The folder is created after all checks.

    Raises:
      ValueError: if the configuration is invalid, needs too much memory, differs from that of
        the resumed run, or has fewer iterations than are done.
    """
    env = games.make(config.game, **config.game_parameters)
    record = record_of(name, config)
    network = build_network(record, env)
    record = with_architecture(record, network)
    check_head(config.search, network)
    if config.network.factory is not None:
        try:
            check_network(network, env)
        except UserError as error:
            raise UserError(f"network {config.network.factory}: {error}") from error
    options = config.network.model_kwargs()
    search_fn = make_search_fn(env, network, config.search.for_evaluation(), **options)
    evals, final_evals, num_positions = make_evals(env, network, search_fn, config.evals)
    learned = positions = None
    if config.dataset is not None:
        learned = open_games(config, env, network)
        record, positions = record | {"inputs": {"dataset": learned.digest}}, learned.positions
        evals, final_evals = (*evals, learned.eval_fn), (*final_evals, learned.final_eval_fn)
    trainer = build_trainer(config, env, network, positions=positions)
    memory = check_memory(env, network, config, share(trainer.shapes))
    path, initial = folder_of(name, config), None
    continues = config.resume and RunFolder(path).saved_iterations()
    if config.init_from is not None and not continues:
        initial = load_initial_params(config, env, network)
    folder, checkpoints = open_run(path, record, config, config.num_iterations, gather)
    return Run(
        config=config,
        name=name,
        record=record,
        num_actions=env.num_actions,
        folder=folder,
        checkpoints=checkpoints,
        trainer=coordinate(trainer),
        evals=evals,
        final_evals=final_evals,
        num_positions=num_positions,
        memory=memory,
        learned=learned,
        initial_params=initial,
    )


def open_folder(path: Path, record: dict[str, Any], config: RunConfig) -> RunFolder:
    """Creates the folder of a run with this `config.json`, or opens it to resume the run.

    The inputs of a resumed run may have been moved: saved paths of equal contents are kept.

    Raises:
      UserError: if the folder of a new run is not empty, or the settings of a resumed run differ.
    """
    if not config.resume:
        return create_run(path, record)
    saved, inputs = read_config(path), record.get("inputs")
    if inputs is not None and inputs == saved.get("inputs"):
        record = record | {name: saved[name] for name in inputs if name in saved}
    return reopen_run(path, record)


def open_run(
    path: Path,
    record: dict[str, Any],
    config: RunConfig,
    num_iterations: int,
    fetch: Callable[[Any], Any] = copy_to_host,
) -> tuple[RunFolder, Checkpoints]:
    """Creates the folder of a run, or opens it to resume the run.

    Args:
      path: the folder.
      record: the content of its `config.json`.
      config: says whether to resume a run, and how many checkpoints to keep.
      num_iterations: the number of iterations at the end of the run.
      fetch: copies a state to the host.

    Raises:
      UserError: if the folder of a new run is not empty, or if the settings of a resumed run differ
        or it has fewer iterations than are done.
    """
    if config.resume:
        require_iterations(path, num_iterations)
    folder = open_folder(path, record, config)
    saved = read_config(path)
    return folder, open_checkpoints(folder.checkpoints, keep=config.keep, fetch=fetch, config=saved)


def check_head(search: Policy, network: PolicyValueNetwork) -> None:
    """Checks that the network has the heads that the search uses.

    The `head` of a search with one tree is -1 or the index of one of several heads.
    """
    head, depths = search.heads[0], network.head_depths
    if len(search.heads) > 1:
        # The networks of this package are built with enough heads.
        if len(depths) < len(search.heads):
            raise UserError(
                f"the search evaluates {len(search.heads)} heads, but the network returns "
                f"{len(depths)}; return a list of {len(search.heads)} pairs (logits, value), or "
                "use a search by one head, as in --search.variant alphazero"
            )
        return
    is_valid = len(depths) > 1 and -len(depths) <= head < len(depths)
    remedy = (
        "-1 for the final head, or the index of one of several heads, which --network.head-depths"
        f" sets (here {show(depths)})"
    )
    check(head == -1 or is_valid, "search.head", head, remedy)


def folder_of(preset: str, config: RunConfig, stage: str | None = None) -> Path:
    """Returns the folder of a run of self-play, or of a stage of the pipeline."""
    return Path(config.out or default_folder(preset, stage))


def build_trainer(
    config: Config,
    env: Environment,
    network: PolicyValueNetwork,
    devices: Sequence[Any] | None = None,
    positions: PositionsFn | None = None,
) -> Trainer:
    """Builds the trainer of a run; all processes build the same one.

    Args:
      config: the configuration.
      env: the game.
      network: the network.
      devices: the devices to use; by default those that the configuration chooses.
      positions: the positions of each iteration; by default those of self-play.
    """
    augment_fn = make_augment(*games.symmetries(env)) if config.learner.augment else None
    return make_trainer(
        env,
        network,
        config.search,
        config.selfplay,
        config.learner,
        num_iterations=config.schedule_iterations or config.num_iterations,
        devices=choose_devices(config.devices) if devices is None else devices,
        augment_fn=augment_fn,
        positions=positions,
        **config.network.model_kwargs(),
    )


def build_worker_trainer(name: str, config: Config) -> Trainer:
    """Builds the trainer of a process other than the first."""
    env = games.make(config.game, **config.game_parameters)
    return build_trainer(config, env, build_network(record_of(name, config), env))


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
    try:
        return fit_arrays(wanted, by_name(jax.tree.map(np.asarray, trained.params)))
    except UserError as error:
        fields = list_differences(network, trained.network)
        remedy = f"; it has {fields}: choose the same --network options" if fields else ""
        raise UserError(
            f"init_from is {source}, whose parameters do not fit the network of the run: "
            f"{error}{remedy}"
        ) from None


def load_source(source: str, **known: Any) -> Trained:
    """Loads a network by `load_trained` and its options; `FOLDER@ITERATION` names a checkpoint.

    Raises:
      UserError: if there is no such network, or the iteration is not a number.
    """
    path, _, iteration = source.rpartition("@")
    if Path(source).exists() or not path:
        return load_trained(source, **known)
    if not iteration.isdecimal():
        raise UserError(f"there is no network {source}; a checkpoint is FOLDER@ITERATION")
    return load_trained(path, int(iteration), **known)


def list_differences(network: PolicyValueNetwork, other: PolicyValueNetwork) -> str:
    """Lists the fields in which another network differs, as `width 8 (here 4)`."""
    own, fields = (describe_network(x).get("fields", {}) for x in (network, other))
    names = sorted(name for name in own.keys() & fields.keys() if own[name] != fields[name])
    return ", ".join(f"{name} {fields[name]} (here {own[name]})" for name in names)
