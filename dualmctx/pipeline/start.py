"""Starts or resumes a stage: checks its inputs, opens its folder and runs it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import games
from dualmctx.checks import check
from dualmctx.datasets.manifest import check_splits, dataset_digest
from dualmctx.datasets.shards import SPLITS
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import (
    folder_of,
    list_differences,
    load_source,
    open_run,
)
from dualmctx.experiment.runner import locked_run, run_stage
from dualmctx.experiment.stage import StageRun
from dualmctx.pipeline import player, reinforce, supervised, value
from dualmctx.pipeline.config import (
    AlphaGoConfig,
    PlayerConfig,
    ReinforceConfig,
    RunConfig,
    SupervisedConfig,
    ValueConfig,
)
from dualmctx.pipeline.parts import alphago_network, alphago_options, check_parts
from dualmctx.pipeline.stage import INPUTS, Inputs, MakeStage
from dualmctx.policies import AlphaGo
from dualmctx.runs.folder import to_dict
from dualmctx.runs.network_record import with_architecture
from dualmctx.runs.saved_network import Trained, identity_of
from dualmctx.runs.saved_policy import search_record
from dualmctx.types import Environment, PolicyValueNetwork

PIPELINE = "pipeline"
"""The entry of `config.json` that names the stage of a run."""
ALPHAGO = "alphago"
"""The name of the whole pipeline."""
DATASET, OPPONENT = "dataset", "opponent"
"""The input that is a data set, all others being networks; and the one that may be any network."""
_SOURCES = {
    DATASET: "the folder of a data set; dualmctx dataset makes one",
    "init_from": "the folder of a run; the stage before this one makes it",
    "supervised": "the folder of a run; --pipeline supervised makes it",
    "value": "the folder of a run; --pipeline value makes it",
}


class StageKind(NamedTuple):
    """A row of the table of stages.

    Attributes:
      config: the class of the configuration; it has a field with the name of the stage, with the
        options of the stage alone.
      summary: a description for `--help`.
      required: the inputs that the command must name.
      make_stage: `None` for the whole pipeline.
      smaller: the flags that reduce the memory of the stage, for messages.
    """

    config: type[RunConfig]
    summary: str
    required: tuple[str, ...] = ()
    make_stage: MakeStage | None = None
    smaller: str = ""


STAGES: dict[str, StageKind] = {
    "supervised": StageKind(
        SupervisedConfig,
        "the policy network and the rollout policy, from games of others",
        (DATASET,),
        supervised.make_stage,
        "--supervised.batch-size",
    ),
    "reinforce": StageKind(
        ReinforceConfig,
        "a stronger policy, by games against its earlier versions",
        ("init_from",),
        reinforce.make_stage,
        "--reinforce.num-games or --reinforce.eval-games",
    ),
    "value": StageKind(
        ValueConfig,
        "the value network, from games of the stronger policy",
        ("init_from", "supervised"),
        value.make_stage,
        "--value.batch-size or --value.games-per-batch",
    ),
    "player": StageKind(
        PlayerConfig,
        "the search with all networks, and a match of several rollout mixes",
        ("supervised", "value"),
        player.make_stage,
        "--player.num-games",
    ),
    ALPHAGO: StageKind(AlphaGoConfig, "all stages, one after another, from games to the player"),
}
"""The stages that run alone, and the whole pipeline; see `dualmctx.pipeline.whole`."""


def start_stage(name: str, preset: str, config: RunConfig, warn: Callable[[str], None]) -> int:
    """Runs or resumes one stage, with its folder locked; see `run_stage`.

    If an input or an option is wrong, no file is created or changed.

    Args:
      name: the stage, a key of `STAGES` other than `ALPHAGO`.
      preset: the preset or the game, for the folder and the records.
      config: the configuration, of the stage's class.
      warn: called with a message about each damaged checkpoint that was skipped.

    Raises:
      RunFailed: as `run_stage`, and for bad input.
    """
    with locked_run(folder_of(preset, config, name), resume=config.resume):
        return run_stage(_assemble(name, preset, config, warn))


def _assemble(name: str, preset: str, config: RunConfig, warn: Callable[[str], None]) -> StageRun:
    """Assembles a stage. The folder is created last, after all checks."""
    kind = STAGES[name]
    for required in kind.required:
        if getattr(config, required) is None:
            raise UserError(f"--pipeline {name} needs {_flag_of(required)}, {_SOURCES[required]}")
    env = games.make(config.game, **config.game_parameters)
    inputs = load_inputs(config, env)
    network = _network(config, env, inputs)
    path = folder_of(preset, config, name)
    assert kind.make_stage is not None
    stage = kind.make_stage(env, network, config, inputs, path)
    record = _record_of(name, preset, config, network, inputs)
    folder, checkpoints = open_run(path, record, config, stage.num_iterations)
    rate = getattr(getattr(config, name), "learning_rate", None)
    return StageRun(
        stage=stage,
        folder=folder,
        checkpoints=checkpoints,
        title=f"{preset}, {name}",
        checkpoint_every=config.checkpoint_every,
        resume=config.resume,
        warn=warn,
        smaller=kind.smaller,
        learning_rate=None if rate is None else (f"--{name}.learning-rate", rate),
    )


def _record_of(
    name: str, preset: str, config: RunConfig, network: PolicyValueNetwork, inputs: Inputs
) -> dict[str, Any]:
    """Returns the content of `config.json` of a stage, with the entries of a training run."""
    record = plain_record(name, preset, config)
    options = getattr(config, "network", None)
    if options is not None:
        record["network"] = to_dict(alphago_options(options)) | {"num_heads": 2}
    else:
        source = inputs.get("init_from") or inputs["supervised"]
        record["network"] = source.record.get("network", {})
    # The search of commands that load the network of the stage and name no search.
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


def _flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def load_inputs(config: RunConfig, env: Environment) -> Inputs:
    """Loads the networks that a configuration names, and checks its data set.

    Raises:
      UserError: if an input does not exist, cannot be read, is for another game or parameters of
        the game, or does not have the three parts of the pipeline; or if a split of the data set is
        empty, or one of its shards missing or cut off.
    """
    if (dataset := getattr(config, DATASET, None)) is not None:
        if not Path(dataset).is_dir():
            raise UserError(
                f"--dataset is {dataset}, which is not a folder; dualmctx dataset makes a data set"
            )
        check_splits(Path(dataset), env, SPLITS)
    # Options of the whole pipeline have the names of some inputs.
    named = {name: getattr(config, name, None) for name in INPUTS}
    return {x: _load(x, y, config, env) for x, y in named.items() if isinstance(y, str)}


def describe_inputs(config: RunConfig, inputs: Inputs) -> dict[str, Any]:
    """Identifies the contents of the inputs, so that a resumed stage notices other ones."""
    described: dict[str, Any] = {name: identity_of(x) for name, x in inputs.items()}
    folder = getattr(config, DATASET, None)
    if folder is not None:
        described[DATASET] = dataset_digest(Path(folder))
    return described


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
        raise UserError(f"{_flag_of(name)} {source} cannot be used: {error}") from error
    return trained


def _network(config: RunConfig, env: Environment, inputs: Inputs) -> PolicyValueNetwork:
    """Makes the network of the options, or takes that of the inputs, which all must have."""
    loaded = {x: y for x, y in inputs.items() if x != OPPONENT}
    options = getattr(config, "network", None)
    if options is None:
        first = next(iter(loaded))
        network, remedy = loaded[first].network, f"use runs of one pipeline, as {_flag_of(first)}"
    else:
        network, remedy = alphago_network(env, options), "choose the same --network options"
    for name, trained in loaded.items():
        if fields := list_differences(network, trained.network):
            source = f"{_flag_of(name)} {getattr(config, name)}"
            raise UserError(f"{source} has a network with {fields}; {remedy}")
    return network
