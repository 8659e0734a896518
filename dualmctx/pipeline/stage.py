"""The interface between a stage and the runner: the stage's inputs, state and functions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import chex
from rich.table import Table

from dualmctx.runs.metrics_file import Row
from dualmctx.runs.saved_network import Trained
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


def _prepare_nothing(say: Callable[[str], None]) -> None:
    del say


class Stage(NamedTuple):
    """A stage of the pipeline, ready to run.

    Attributes:
      name: the name of the stage, a key of `dualmctx.pipeline.registry.STAGES`.
      num_iterations: the number of iterations of the whole stage.
      init: returns the initial state. It is deterministic: the seed of the configuration and the
        inputs determine the state.
      iterate: runs one iteration; returns the new state and the entries of its row, as floats. An
        entry that is not finite means divergence. It may donate the old state. Its results must
        depend on the state alone, so that a resumed stage gives the same numbers.
      evaluate: runs the evals; returns entries with a slash, such as `validation/policy_top1`.
      eval_every: iterations between evals; 0 for evals at the end only. The last iteration always
        has evals.
      describe: describes a row in at most 43 columns, so that a line of the log fits 80. A row has
        entries of evals only where evals ran.
      plot: `(rows, title, file)`; writes the picture.
      summarize: `(state, rows)`; returns the entries of `summary.json`. The runner adds `stage`,
        `title`, `iterations` and `seconds`.
      table: lays out the summary as a table of at most 80 columns.
      about: describes the stage in one line, for the start of the output.
      prepare: called once before the first iteration of each process, with a function that prints a
        line. It makes files in the folder that the iterations read, such as games. It must continue
        its own work if it was interrupted.
    """

    name: str
    num_iterations: int
    init: Callable[[], StageState]
    iterate: Callable[[StageState], tuple[StageState, dict[str, float]]]
    evaluate: Callable[[StageState], dict[str, float]]
    eval_every: int
    describe: Callable[[Row], str]
    plot: Callable[[list[Row], str, Path], None]
    summarize: Callable[[StageState, list[Row]], dict[str, Any]]
    table: Callable[[dict[str, Any]], Table]
    about: str = ""
    prepare: Callable[[Callable[[str], None]], None] = _prepare_nothing


class MakeStage(Protocol):
    """Makes a stage; `make_stage` of each stage's module."""

    def __call__(
        self,
        env: Environment,
        network: PolicyValueNetwork,
        config: Any,
        inputs: Inputs,
        folder: Path,
    ) -> Stage:
        """Makes the stage, without lengthy computation.

        Args:
          env: the game.
          network: the network with three parts.
          config: the configuration of the stage, of the class that `STAGES` names.
          inputs: the loaded inputs.
          folder: the folder of the run, which may not exist yet. `prepare` and the iterations may
            write to it; this function must not.

        Raises:
          ValueError: if the configuration does not fit the game or the inputs.
        """
        ...
