"""The state of the pipeline's stages, and the networks that they start from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import chex

from dualmctx.experiment.stage import Stage
from dualmctx.runs.saved_network import Trained
from dualmctx.types import Environment, Params, PolicyValueNetwork


class StageState(NamedTuple):
    """The complete state of a stage, as a checkpoint holds it.

    Attributes:
      params: the parameters of the whole network.
      opt_state: the state of the optimiser, for the trained parts only.
      extra: arrays that only this stage has, such as a pool of earlier parameters; else `()`.
      rng_key: raw key, for the iterations that need one.
      iteration: scalar int32, number of completed iterations.
    """

    params: Params
    opt_state: Any
    extra: Any
    rng_key: chex.PRNGKey
    iteration: chex.Array


INPUTS = ("init_from", "supervised", "value", "reinforced", "opponent")
"""The options that name networks from which a stage starts.

`init_from` has the parameters with which the stage starts; `supervised`, `value` and `reinforced`
are those of these stages; `opponent` is another player for the match of the player stage.
"""

Inputs = dict[str, Trained]
"""The loaded networks of those options that the stage has, by name.

All are networks for the stage's game. All but `opponent` have the three parts of
`dualmctx.pipeline.parts`, of equal sizes.
"""

MakeStage = Callable[[Environment, PolicyValueNetwork, Any, Inputs, Path], Stage]
"""`(env, network, config, inputs, folder) -> stage`, without lengthy computation.

Takes the game; the network with three parts; the configuration, of the class that the table of
stages names; the loaded inputs; and the folder of the run, which may not exist yet. `prepare` and
the iterations may write to it; this function must not. Raises `UserError` if the configuration does
not fit the game or the inputs."""
