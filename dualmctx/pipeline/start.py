"""Starts or resumes a stage: checks its inputs, opens its folder and runs it."""

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import games
from dualmctx.checks import check
from dualmctx.datasets.manifest import MANIFEST, open_game, read_manifest
from dualmctx.datasets.shards import SPLITS, find_shards
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import load_source
from dualmctx.experiment.messages import describe_refusal
from dualmctx.experiment.runner import RunFailed, run_stage
from dualmctx.experiment.stage import StageRun
from dualmctx.pipeline.config import PlayerConfig, RunConfig
from dualmctx.pipeline.parts import alphago_network, alphago_options, check_parts
from dualmctx.pipeline.stage import STAGES, Inputs
from dualmctx.policies import AlphaGo
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.folder import (
    RunFolder,
    create_run,
    lock_folder,
    read_config,
    reopen_run,
    require_iterations,
    to_dict,
)
from dualmctx.runs.network_record import describe_network, with_architecture
from dualmctx.runs.saved_network import Trained, identity_of
from dualmctx.runs.saved_policy import search_record
from dualmctx.training.divergence import FAILURES
from dualmctx.types import Environment, PolicyValueNetwork

PIPELINE = "pipeline"
"""The entry of `config.json` that names the stage of a run."""
DATASET, OPPONENT = "dataset", "opponent"
"""The input that is a data set, all others being networks; and the one that may be any network."""
_SOURCES = {
    DATASET: "dualmctx dataset makes one",
    "init_from": "the stage before this one makes it",
    "supervised": "--pipeline supervised makes it",
    "value": "--pipeline value makes it",
}


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
      UserError: if an input or an option is wrong, or if the configuration or an input differs
        from that of the resumed run.
    """
    kind = STAGES[name]
    require_inputs(config, kind.required, name)
    env = games.make(config.game, **config.game_parameters)
    inputs = load_inputs(config, env)
    network = _network(config, env, inputs)
    record = _record_of(name, preset, config, network, inputs)
    path = folder_of(name, preset, config)
    stage = kind.make_stage(env, network, config, inputs, path)
    if config.resume:
        require_iterations(path, stage.num_iterations)
    folder = open_folder(path, record, resume=config.resume)
    options: Any = getattr(config, kind.group)
    rate = getattr(options, "learning_rate", None)
    return StageRun(
        stage=stage,
        folder=folder,
        checkpoints=open_checkpoints(
            folder.checkpoints, keep=config.keep, fetch=_fetch, config=read_config(path)
        ),
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


def _fetch(state: Any) -> Any:
    """Copies a state to NumPy arrays, which an iteration that donates the state cannot change."""
    return jax.tree.map(np.array, state)


def open_folder(path: Path, record: dict[str, Any], *, resume: bool) -> RunFolder:
    """Creates the folder of a run, or opens it to resume the run.

    The inputs of a resumed run may have been moved: their paths stay as they were if their contents
    are the same.
    """
    if not resume:
        return create_run(path, record)
    saved = read_config(path)
    if record["inputs"] == saved.get("inputs"):
        record = record | {name: saved[name] for name in record["inputs"] if name in saved}
    return reopen_run(path, record)


def folder_of(name: str, preset: str, config: RunConfig) -> Path:
    """Returns the folder of a stage or of the whole pipeline."""
    return Path(config.out or f"runs/{preset}-{name}")


def _record_of(
    name: str, preset: str, config: RunConfig, network: PolicyValueNetwork, inputs: Inputs
) -> dict[str, Any]:
    """Returns the content of `config.json` of a stage.

    It has the entries of a training run from which networks are loaded, the fields of the
    configuration, and digests of the inputs. Its search is that of commands which load the network
    of the stage and name no search.
    """
    record = plain_record(name, preset, config)
    source = inputs.init_from or inputs.supervised
    options = getattr(config, "network", None)
    if options is not None:
        record["network"] = to_dict(alphago_options(options)) | {"num_heads": 2}
    elif source is not None:
        record["network"] = source.record.get("network", {})
    if isinstance(config, PlayerConfig):
        search = AlphaGo(num_simulations=config.player.num_simulations)
    else:
        # Without a trained value network, searches use rollouts alone.
        search = AlphaGo(rollout_mix=1.0) if name in ("supervised", "reinforce") else AlphaGo()
    record["search"] = search_record(search)
    record["inputs"] = describe_inputs(config, inputs)
    return with_architecture(record, network)


def plain_record(name: str, preset: str, config: RunConfig) -> dict[str, Any]:
    """Returns the fields of a configuration as JSON values, without those of its execution."""
    # The folder may be moved.
    fields = to_dict(dataclasses.replace(config, out=None, resume=False))
    return fields | {"preset": preset, PIPELINE: name}


def _network(config: RunConfig, env: Environment, inputs: Inputs) -> Any:
    """Makes the network of a stage, or takes that of its inputs.

    Raises:
      UserError: if the options describe another network than that of `init_from`.
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


def require_inputs(config: RunConfig, required: tuple[str, ...], stage: str) -> None:
    """Checks that all inputs of a stage are named.

    Raises:
      UserError: if one is missing.
    """
    for name in required:
        if getattr(config, name) is None:
            kind = "a data set" if name == DATASET else "a run"
            raise UserError(
                f"--pipeline {stage} needs {flag_of(name)}, the folder of {kind}; "
                f"{_SOURCES.get(name, '')}"
            )


def flag_of(name: str) -> str:
    """Returns the flag of a field."""
    return f"--{name.replace('_', '-')}"


def load_inputs(config: RunConfig, env: Environment) -> Inputs:
    """Loads the networks that a configuration names, and checks its data set.

    Raises:
      UserError: if an input does not exist, cannot be read, is for another game or parameters of
        the game, or does not have the three parts of the pipeline; if the networks differ in size;
        or if a split of the data set is empty, or one of its shards missing or cut off.
    """
    if getattr(config, DATASET, None) is not None:
        _check_dataset(Path(getattr(config, DATASET)), env)
    loaded = {
        name: _load(name, getattr(config, name), config, env)
        for name in Inputs._fields
        if isinstance(getattr(config, name, None), str)
    }
    _check_equal_networks({x: y for x, y in loaded.items() if x != OPPONENT}, config)
    return Inputs(**loaded)


def describe_inputs(config: RunConfig, inputs: Inputs) -> dict[str, Any]:
    """Identifies the contents of the inputs, so that a resumed stage notices other ones."""
    networks = {name: x for name, x in inputs._asdict().items() if x is not None}
    described: dict[str, Any] = {name: identity_of(x) for name, x in networks.items()}
    folder = getattr(config, DATASET, None)
    if folder is not None:
        manifest = (Path(folder) / MANIFEST).read_bytes()
        described[DATASET] = hashlib.sha256(manifest).hexdigest()[:16]
    return described


def _check_dataset(folder: Path, env: Environment) -> None:
    if not folder.is_dir():
        raise UserError(
            f"--dataset is {folder}, which is not a folder; dualmctx dataset makes a data set"
        )
    manifest = read_manifest(folder)
    open_game(manifest, env, folder)
    for split in SPLITS:
        if not manifest.splits[split]["rows"]:
            raise UserError(
                f"the data set {folder} has no positions in the split {split}; make one with more "
                "games, or with larger shares --validation and --test"
            )
        find_shards(folder, split, manifest.splits[split])


def _load(name: str, source: str, config: RunConfig, env: Environment) -> Trained:
    try:
        trained = load_source(source, game=config.game)
        same = trained.env.id == env.id and trained.env.num_actions == env.num_actions
        parameters = trained.record.get("game_parameters", {})
        check(same, "its game", trained.env.id, env.id)
        # Only parameters that both name are compared, because those left out have their defaults.
        known = parameters.keys() & config.game_parameters.keys()
        for key in sorted(known):
            wanted = config.game_parameters[key]
            check(parameters[key] == wanted, f"its game's {key}", parameters[key], str(wanted))
        same = trained.env.observation_shape == env.observation_shape
        check(same, "its observation", trained.env.observation_shape, str(env.observation_shape))
        if name != OPPONENT:
            check_parts(trained.network)
    except UserError as error:
        raise UserError(f"{flag_of(name)} {source} cannot be used: {error}") from error
    return trained


def _check_equal_networks(loaded: dict[str, Trained], config: RunConfig) -> None:
    described = {name: describe_network(x.network)["fields"] for name, x in loaded.items()}
    for name, fields in described.items():
        first, wanted = next(iter(described.items()))
        differing = sorted(x for x in fields if fields[x] != wanted[x])
        if differing:
            text = ", ".join(f"{x} {fields[x]} and {wanted[x]}" for x in differing)
            raise UserError(
                f"the networks of {flag_of(name)} {getattr(config, name)} and {flag_of(first)} "
                f"{getattr(config, first)} differ: {text}; use runs of one pipeline"
            )
