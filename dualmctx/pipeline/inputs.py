"""Loads and checks the inputs of a stage: a data set, and networks of earlier stages."""

import hashlib
from pathlib import Path
from typing import Any

from dualmctx.checks import check
from dualmctx.datasets.manifest import MANIFEST, open_game, read_manifest
from dualmctx.datasets.shards import SPLITS, find_shards
from dualmctx.errors import UserError
from dualmctx.pipeline.config import RunConfig
from dualmctx.pipeline.parts import check_parts
from dualmctx.pipeline.stage import Inputs
from dualmctx.runs.network_record import describe_network
from dualmctx.runs.saved_network import Trained, identity_of, load_trained
from dualmctx.types import Environment

DATASET = "dataset"
"""The input that is a data set; all others are networks."""
OPPONENT = "opponent"
"""The input that may be any network for the game."""


def require_inputs(config: RunConfig, required: tuple[str, ...], stage: str) -> None:
    """Checks that all inputs of a stage are named.

    Raises:
      ValueError: if one is missing.
    """
    for name in required:
        if getattr(config, name) is None:
            kind = "a data set" if name == DATASET else "a run"
            raise UserError(
                f"--pipeline {stage} needs {flag_of(name)}, the folder of {kind}; "
                f"{_SOURCES.get(name, '')}"
            )


_SOURCES = {
    DATASET: "dualmctx dataset makes one",
    "init_from": "the stage before this one makes it",
    "supervised": "--pipeline supervised makes it",
    "value": "--pipeline value makes it",
}


def flag_of(name: str) -> str:
    """Returns the flag of a field."""
    return f"--{name.replace('_', '-')}"


def load_inputs(config: RunConfig, env: Environment) -> Inputs:
    """Loads the networks that a configuration names, and checks its data set.

    Args:
      config: the configuration of a stage.
      env: the game of the stage.

    Raises:
      ValueError: if an input does not exist, cannot be read, is for another game or parameters of
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
        trained = _load_at(source, config)
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


def _load_at(source: str, config: RunConfig) -> Trained:
    """Loads a network; `FOLDER@ITERATION` names a checkpoint."""
    path, _, iteration = source.rpartition("@")
    if Path(source).exists() or not path or not iteration.isdecimal():
        return load_trained(source, game=config.game)
    return load_trained(path, int(iteration), game=config.game)


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
