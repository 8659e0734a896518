"""The table of stages: name → configuration, module, required inputs, description."""

import importlib
from typing import NamedTuple

from dualmctx.pipeline.config import (
    AlphaGoConfig,
    PlayerConfig,
    ReinforceConfig,
    RunConfig,
    SupervisedConfig,
    ValueConfig,
)
from dualmctx.pipeline.stage import MakeStage


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
