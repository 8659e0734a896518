"""The interface of the pipeline's stages: their state, their inputs and their makers."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import chex
import optax

from dualmctx.experiment.stage import Stage
from dualmctx.pipeline.config import (
    AlphaGoConfig,
    PlayerConfig,
    ReinforceConfig,
    RunConfig,
    SupervisedConfig,
    ValueConfig,
)
from dualmctx.pipeline.options import SupervisedOptions, ValueOptions
from dualmctx.runs.saved_network import Trained
from dualmctx.training.learner import Learner, make_optimizer
from dualmctx.types import Environment, Params, PolicyValueNetwork


class StageState(NamedTuple):
    """The complete state of a stage, as a checkpoint holds it.

    Attributes:
      params: the parameters of the whole network.
      opt_state: the state of the optimiser, for the trained parts only.
      extra: arrays that only this stage has, such as a pool of earlier parameters; else `()`.
      rng_key: raw key; each iteration splits it.
      iteration: scalar int32, number of completed iterations.
    """

    params: Params
    opt_state: Any
    extra: Any
    rng_key: chex.PRNGKey
    iteration: chex.Array


class Inputs(NamedTuple):
    """The trained networks that a stage starts from; `None` for those that the stage does not use.

    All are networks for the stage's game. All but `opponent` have the three parts of
    `dualmctx.pipeline.parts`, of equal sizes.

    Attributes:
      init_from: the network with whose parameters the stage starts.
      supervised: the network of the supervised stage.
      value: the network of the value stage.
      reinforced: the network of the stage reinforce.
      opponent: another player for the match of the player stage.
    """

    init_from: Trained | None = None
    supervised: Trained | None = None
    value: Trained | None = None
    reinforced: Trained | None = None
    opponent: Trained | None = None


MakeStage = Callable[[Environment, PolicyValueNetwork, Any, Inputs, Path], Stage]
"""`(env, network, config, inputs, folder) -> stage`, without lengthy computation.

Takes the game; the network with three parts; the configuration, of the class that `STAGES` names;
the loaded inputs; and the folder of the run, which may not exist yet. `prepare` and the iterations
may write to it; this function must not. Raises `UserError` if the configuration does not fit the
game or the inputs."""


class StageKind(NamedTuple):
    """A row of the table.

    Attributes:
      config: the class of the configuration.
      module: the module with `make_stage`; it is imported when the stage runs.
      group: the name of the field with the options of the stage alone.
      required: the names of the inputs that the command must name.
      summary: a description for `--help`.
    """

    config: type[RunConfig]
    module: str
    group: str
    required: tuple[str, ...]
    summary: str

    @property
    def make_stage(self) -> MakeStage:
        """The function that makes the stage."""
        return importlib.import_module(self.module).make_stage


STAGES: dict[str, StageKind] = {
    "supervised": StageKind(
        SupervisedConfig,
        "dualmctx.pipeline.supervised.stage",
        "supervised",
        ("dataset",),
        "the policy network and the rollout policy, from games of others",
    ),
    "reinforce": StageKind(
        ReinforceConfig,
        "dualmctx.pipeline.reinforce.stage",
        "reinforce",
        ("init_from",),
        "a stronger policy, by games against its earlier versions",
    ),
    "value": StageKind(
        ValueConfig,
        "dualmctx.pipeline.value.stage",
        "value",
        ("init_from", "supervised"),
        "the value network, from games of the stronger policy",
    ),
    "player": StageKind(
        PlayerConfig,
        "dualmctx.pipeline.player.stage",
        "player",
        ("supervised", "value"),
        "the search with all networks, and a match of several rollout mixes",
    ),
}
"""The stages that run alone."""

ALPHAGO = "alphago"
"""The name of the whole pipeline."""
ALL_STAGES = StageKind(
    AlphaGoConfig,
    "dualmctx.pipeline.whole.run",
    "",
    (),
    "all stages, one after another, from games to the player",
)
"""The whole pipeline. Its module has `run_all`, in place of `make_stage`."""


def make_stage_optimizer(options: SupervisedOptions | ValueOptions) -> optax.GradientTransformation:
    """Returns the optimiser of self-play training, with the schedule of a whole stage.

    It is AdamW with clipped gradients, a linear warm-up and a cosine decay over all
    `num_iterations * num_updates` steps.
    """
    learner = Learner(
        learning_rate=options.learning_rate,
        warmup_steps=options.warmup_steps,
        weight_decay=options.weight_decay,
    )
    return make_optimizer(learner, options.num_iterations * options.num_updates)
