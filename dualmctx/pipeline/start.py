"""Starts or resumes a stage: checks its inputs, opens its folder and runs it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.experiment.messages import describe_refusal
from dualmctx.experiment.runner import RunFailed, run_stage
from dualmctx.experiment.stage import StageRun
from dualmctx.pipeline.config import PlayerConfig, RunConfig
from dualmctx.pipeline.inputs import describe_inputs, load_inputs, require_inputs
from dualmctx.pipeline.parts import alphago_network, alphago_options
from dualmctx.pipeline.registry import STAGES
from dualmctx.pipeline.stage import Inputs
from dualmctx.policies import AlphaGo
from dualmctx.runs.checkpoint import open_writable_checkpoints
from dualmctx.runs.folder import (
    create_run,
    lock_folder,
    read_config,
    reopen_run,
    require_iterations,
    to_dict,
)
from dualmctx.runs.network_record import describe_network, with_architecture
from dualmctx.runs.saved_policy import search_record
from dualmctx.training.divergence import FAILURES
from dualmctx.types import Environment, PolicyValueNetwork

PIPELINE = "pipeline"
"""The entry of `config.json` that names the stage of a run."""
# Stages before the value network is trained: their searches use rollouts alone.
_WITHOUT_VALUE = ("supervised", "reinforce")


def start_stage(name: str, preset: str, config: RunConfig, warn: Callable[[str], None]) -> int:
    """Runs or resumes one stage, with its folder locked.

    If an input or an option is wrong, no file is created or changed.

    Args:
      name: the stage, a key of `STAGES`.
      preset: the preset or the game, for the folder and the records.
      config: the configuration, of the stage's class.
      warn: called with a message about each damaged checkpoint that was skipped.

    Returns:
      0 at the end of the stage, or 130 if Ctrl-C or SIGTERM stopped it after a checkpoint.

    Raises:
      RunFailed: for bad input, if memory, the disk or a device fails, or if training diverges.
      KeyboardInterrupt: see `run_stage`.
    """
    path = folder_of(name, preset, config)
    try:
        with lock_folder(path, resume=config.resume):
            return run_stage(assemble_stage(name, preset, config, warn))
    except (UserError, *FAILURES) as error:
        raise RunFailed(describe_refusal(error, path, resume=config.resume)) from error


def assemble_stage(
    name: str, preset: str, config: RunConfig, warn: Callable[[str], None]
) -> StageRun:
    """Assembles a stage. The folder is created last, after all checks.

    Raises:
      ValueError: if an input or an option is wrong, or if the configuration or an input differs
        from that of the resumed run.
    """
    kind = STAGES[name]
    require_inputs(config, kind.required, name)
    env = games.make(config.game, **config.game_parameters)
    inputs = load_inputs(config, env)
    network = _network(config, env, inputs)
    record = record_of(name, preset, config, network, inputs)
    path = folder_of(name, preset, config)
    stage = kind.make_stage(env, network, config, inputs, path)
    if config.resume:
        require_iterations(path, stage.num_iterations)
        folder = reopen_run(path, with_saved_paths(record, read_config(path)))
    else:
        folder = create_run(path, record)
    checkpoints = open_writable_checkpoints(
        folder.checkpoints, keep=config.keep, fetch=fetch_copy, config=read_config(path)
    )
    options: Any = getattr(config, kind.group)
    rate = getattr(options, "learning_rate", None)
    return StageRun(
        stage=stage,
        folder=folder,
        checkpoints=checkpoints,
        title=f"{preset}, {name}",
        checkpoint_every=config.checkpoint_every,
        resume=config.resume,
        warn=warn,
        smaller=smaller_flag(kind.group, options),
        learning_rate=None if rate is None else (f"--{kind.group}.learning-rate", rate),
    )


def smaller_flag(group: str, options: Any) -> str:
    """Returns the flag of a stage's options that reduces its memory."""
    return f"--{group}.{'batch-size' if hasattr(options, 'batch_size') else 'num-games'}"


def fetch_copy(state: Any) -> Any:
    """Copies a state to NumPy arrays, which an iteration that donates the state cannot change."""
    return jax.tree.map(np.array, state)


def folder_of(name: str, preset: str, config: RunConfig) -> Path:
    """Returns the folder of a stage or of the whole pipeline."""
    return Path(config.out or f"runs/{preset}-{name}")


def record_of(
    name: str, preset: str, config: RunConfig, network: PolicyValueNetwork, inputs: Inputs
) -> dict[str, Any]:
    """Returns the content of `config.json` of a stage.

    It has the entries of a training run from which networks are loaded, the fields of the
    configuration, and digests of the inputs.
    """
    record = plain_record(name, preset, config)
    source = inputs.init_from or inputs.supervised
    options = getattr(config, "network", None)
    if options is not None:
        record["network"] = to_dict(alphago_options(options)) | {"num_heads": 2}
    elif source is not None:
        record["network"] = source.record.get("network", {})
    record["search"] = search_record(_search(name, config))
    record["inputs"] = describe_inputs(config, inputs)
    return with_architecture(record, network)


def with_saved_paths(record: dict[str, Any], saved: dict[str, Any]) -> dict[str, Any]:
    """Keeps the paths of the inputs in a saved record if their contents are the same.

    So a stage continues after its inputs were moved.
    """
    if record["inputs"] != saved.get("inputs"):
        return record
    return record | {name: saved[name] for name in record["inputs"] if name in saved}


def plain_record(name: str, preset: str, config: RunConfig) -> dict[str, Any]:
    """Returns the fields of a configuration as JSON values, without those of its execution."""
    # The folder may be moved.
    fields = to_dict(dataclasses.replace(config, out=None, resume=False))
    return fields | {"preset": preset, PIPELINE: name}


def _search(name: str, config: RunConfig) -> AlphaGo:
    """Returns the search of commands that load the network of a stage and name no search."""
    if isinstance(config, PlayerConfig):
        return AlphaGo(num_simulations=config.player.num_simulations)
    return AlphaGo(rollout_mix=1.0) if name in _WITHOUT_VALUE else AlphaGo()


def _network(config: RunConfig, env: Environment, inputs: Inputs) -> Any:
    """Makes the network of a stage, or takes that of its inputs.

    Raises:
      ValueError: if the options describe another network than that of `init_from`.
    """
    source = inputs.init_from or inputs.supervised
    options = getattr(config, "network", None)
    if options is None:
        if source is None:
            raise UserError("the stage has neither options of a network nor an input with one")
        return source.network
    network = alphago_network(env, options)
    if source is not None:
        own, other = (describe_network(x)["fields"] for x in (network, source.network))
        names = [name for name in own if own[name] != other[name]]
        if names:
            fields = ", ".join(f"{name} {other[name]} (here {own[name]})" for name in names)
            raise UserError(
                f"--init-from {getattr(config, 'init_from', '')} has a network with {fields}; "
                "choose the same --network options"
            )
    return network
