"""One iteration of a stage: the step, its evals, its row and its checkpoint."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dualmctx.experiment.loop import RunFailed
from dualmctx.experiment.messages import describe_divergence
from dualmctx.pipeline.stage import Row, Stage, StageState
from dualmctx.runs.checkpoint import Checkpoints
from dualmctx.runs.folder import RunFolder
from dualmctx.training.divergence import all_finite

IS_FINAL_EVAL = "is_final_eval"
"""The entry of a row with evals that is 1 for those of the last iteration, which may be larger."""


class StageRun(NamedTuple):
    """A stage with its folder.

    Attributes:
      stage: the stage.
      folder: the folder of the run.
      checkpoints: its checkpoints.
      title: the preset and the stage, for messages and results.
      group: the group of flags with the stage's options, for messages.
      options: these options.
      checkpoint_every: iterations between checkpoints.
      resume: whether to continue from the newest checkpoint, if there is one.
      warn: called with a message about each damaged checkpoint.
    """

    stage: Stage
    folder: RunFolder
    checkpoints: Checkpoints
    title: str
    group: str
    options: Any
    checkpoint_every: int
    resume: bool
    warn: Callable[[str], None]


class Clock:
    """Measures the wall-clock time of a stage over all processes that ran it."""

    def __init__(self, rows: list[Row]) -> None:
        """Continues from the time in the last row of earlier processes."""
        self._start = time.perf_counter() - (rows[-1]["wall_seconds"] if rows else 0.0)

    def elapsed(self) -> float:
        """Returns the seconds since the start, without those between processes."""
        return time.perf_counter() - self._start


def run_iteration(
    run: StageRun,
    state: StageState,
    rows: list[Row],
    outputs: Sequence[Callable[[Row], None]],
    clock: Clock,
) -> StageState:
    """Runs one iteration, writes its row, and saves a checkpoint if one is due.

    Args:
      run: the stage and its folder.
      state: the state, which the iteration may donate.
      rows: the rows so far; the new one is appended.
      outputs: functions that write or show the new row.
      clock: the time since the start of the stage.

    Raises:
      RunFailed: if training diverges; the row is written first, and no checkpoint is saved.
    """
    stage, start = run.stage, time.perf_counter()
    state, entries = stage.iterate(state)
    metrics = {name: float(x) for name, x in entries.items()}
    iteration = int(state.iteration)
    seconds = (rows[-1]["seconds"] if rows else 0.0) + time.perf_counter() - start
    row: Row = {"iteration": iteration, "seconds": seconds, **metrics}
    divergence = _check_divergence(metrics, state)
    if not divergence and _is_eval_due(stage, iteration):
        row |= measure(stage, state)
    row["wall_seconds"] = clock.elapsed()
    rows.append(row)
    for write in outputs:
        write(row)
    if divergence:
        run.checkpoints.wait()
        rate = run.options.learning_rate
        message = describe_divergence(run, iteration, divergence, run.group, rate)
        raise RunFailed(message, exit_code=3)
    if iteration % run.checkpoint_every == 0:
        run.checkpoints.save(iteration, state)
    return state


def measure(stage: Stage, state: StageState) -> Row:
    """Runs the evals; returns their entries of a row, `eval_seconds` and `is_final_eval`."""
    start = time.perf_counter()
    entries = {name: float(x) for name, x in stage.evaluate(state).items()}
    is_final = float(int(state.iteration) >= stage.num_iterations)
    return entries | {"eval_seconds": time.perf_counter() - start, IS_FINAL_EVAL: is_final}


def _is_eval_due(stage: Stage, iteration: int) -> bool:
    """Returns whether evals run after an iteration."""
    is_regular = stage.eval_every > 0 and iteration % stage.eval_every == 0
    return is_regular or iteration == stage.num_iterations


def _check_divergence(metrics: dict[str, float], state: StageState) -> str | None:
    """Describes a number of the row or a parameter that is not finite; `None` if all are."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            return f"{name} is {value}"
    return None if all_finite(state.params) else "a parameter of the network is not finite"
