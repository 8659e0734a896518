"""Runs a stage: restores it, iterates, measures, logs, saves, and writes its results."""

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from dualmctx.distributed.signals import stopped_on_request
from dualmctx.experiment.loop import STOPPED, RunFailed
from dualmctx.experiment.messages import describe_divergence, describe_failure, resume_command
from dualmctx.pipeline.stage import Row, Stage, StageState
from dualmctx.runs.checkpoint import Checkpoints
from dualmctx.runs.display import Described, Display
from dualmctx.runs.folder import RunFolder
from dualmctx.runs.loggers import tensorboard
from dualmctx.runs.restore import restore
from dualmctx.training.divergence import FAILURES, all_finite, first_line


class StageRun(NamedTuple):
    """A stage with its folder.

    Attributes:
      stage: the stage.
      folder: the folder of the run.
      checkpoints: its checkpoints.
      title: the preset and the stage, for messages and results.
      options: the stage's group of options, for messages.
      checkpoint_every: iterations between checkpoints.
      resume: whether to continue from the newest checkpoint, if there is one.
      warn: called with a message about each damaged checkpoint.
    """

    stage: Stage
    folder: RunFolder
    checkpoints: Checkpoints
    title: str
    options: Any
    checkpoint_every: int
    resume: bool
    warn: Callable[[str], None]


def run_stage(run: StageRun, console: Console | None = None) -> int:
    """Runs or resumes a stage, whose folder is locked.

    Args:
      run: the stage and its folder.
      console: the console, by default standard output.

    Returns:
      0 at the end of the stage, or 130 if Ctrl-C or SIGTERM stopped it after a checkpoint.

    Raises:
      RunFailed: if a checkpoint or the files of the stage cannot be read, if memory, the disk or a
        device fails, or if training diverges.
      KeyboardInterrupt: if it is stopped before its first iteration or by a second signal. Its
        argument says how to continue.
    """
    try:
        try:
            state, rows = initial_state(run)
        except ValueError as error:
            raise RunFailed(first_line(error)) from error
        with tensorboard(run.folder.path / "tensorboard", int(state.iteration)) as log:
            return _train(run, state, rows, log, console)
    # The files of a data set may turn out to be damaged while they are read.
    except (ValueError, *FAILURES) as error:
        group = type(run.options).__name__.lower()
        smaller = "batch-size" if hasattr(run.options, "batch_size") else "num-games"
        message = describe_failure(run, error, f"--{group}.{smaller}")
        raise RunFailed(message) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt("; --resume continues from the last checkpoint") from None
    finally:
        # Hold the lock of the folder until background writes end.
        with contextlib.suppress(OSError):
            run.checkpoints.wait()


def initial_state(run: StageRun) -> tuple[StageState, list[Row]]:
    """Returns the initial or restored state, and the rows up to its iteration.

    Raises:
      ValueError: if no checkpoint can be read, or it is of another configuration.
    """
    state = run.stage.init()
    # A run that was stopped before its first checkpoint starts from the beginning.
    if run.resume and run.checkpoints.latest() is not None:
        restored = restore(run.folder, run.checkpoints, state, run.warn)
        # A copy, because an iteration may donate the arrays.
        state = jax.tree.map(jnp.array, restored)
    return state, run.folder.keep_rows(int(state.iteration))


def fetch_copy(state: Any) -> Any:
    """Copies a state to NumPy arrays, which an iteration that donates the state cannot change."""
    return jax.tree.map(np.array, state)


def _train(
    run: StageRun,
    state: StageState,
    rows: list[Row],
    log: Callable[[Row], None],
    console: Console | None,
) -> int:
    """Runs the iterations that are left; returns the exit code, 0 or 130."""
    stage, done = run.stage, int(state.iteration)
    describe = _describe_fn(stage)
    with Display(
        stage.num_iterations, done, console, title=stage.name, describe=describe
    ) as display:
        display.say(": ".join(filter(None, (run.title, stage.about))))
        display.say(f"writing to {run.folder.path}")
        clock = _Clock(rows)
        if done < stage.num_iterations:
            stage.prepare(display.say)
        outputs = (run.folder.append_row, log, display.show)
        with stopped_on_request(display.say) as stop:
            while int(state.iteration) < stage.num_iterations and not stop:
                state = _run_iteration(run, state, rows, outputs, clock)
            run.checkpoints.save(int(state.iteration), state)
            run.checkpoints.wait()
        if int(state.iteration) < stage.num_iterations:
            command = resume_command()
            display.say(f"saved iteration {int(state.iteration)}; continue with: {command}")
            return STOPPED
        _finish(run, state, rows, display)
    return STOPPED if stop else 0


def _describe_fn(stage: Stage) -> Callable[[Row], Described]:
    def describe(row: Row) -> Described:
        text = stage.describe(row)
        return Described((text,), text if any("/" in name for name in row) else "")

    return describe


class _Clock:
    """Measures the wall-clock time of a stage over all processes that ran it."""

    def __init__(self, rows: list[Row]) -> None:
        self._start = time.perf_counter() - (rows[-1]["wall_seconds"] if rows else 0.0)

    def elapsed(self) -> float:
        """Returns the seconds since the start, without those between processes."""
        return time.perf_counter() - self._start


def _run_iteration(
    run: StageRun,
    state: StageState,
    rows: list[Row],
    outputs: Sequence[Callable[[Row], None]],
    clock: _Clock,
) -> StageState:
    """Runs one iteration, writes its row, and saves a checkpoint if one is due.

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
    if not divergence and is_eval_due(stage, iteration):
        start = time.perf_counter()
        row |= {name: float(x) for name, x in stage.evaluate(state).items()}
        row["eval_seconds"] = time.perf_counter() - start
    row["wall_seconds"] = clock.elapsed()
    rows.append(row)
    for write in outputs:
        write(row)
    if divergence:
        run.checkpoints.wait()
        message = describe_divergence(run, iteration, divergence, run.options)
        raise RunFailed(message, exit_code=3)
    if iteration % run.checkpoint_every == 0:
        run.checkpoints.save(iteration, state)
    return state


def is_eval_due(stage: Stage, iteration: int) -> bool:
    """Returns whether evals run after an iteration."""
    is_regular = stage.eval_every > 0 and iteration % stage.eval_every == 0
    return is_regular or iteration == stage.num_iterations


def _check_divergence(metrics: dict[str, float], state: StageState) -> str | None:
    """Describes a number of the row or a parameter that is not finite; `None` if all are."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            return f"{name} is {value}"
    return None if all_finite(state.params) else "a parameter of the network is not finite"


def _finish(run: StageRun, state: StageState, rows: list[Row], display: Display) -> None:
    """Writes the summary and the picture, and prints the table."""
    stage, path = run.stage, run.folder.path
    summary = {
        "stage": stage.name,
        "title": f"{run.title} after {int(state.iteration)} iterations",
        "iterations": int(state.iteration),
        "seconds": rows[-1]["seconds"] if rows else 0.0,
        "wall_seconds": rows[-1]["wall_seconds"] if rows else 0.0,
        **stage.summarize(state, rows),
    }
    stage.plot(rows, run.title, path / "curve.png")
    run.folder.write_json("summary.json", summary)
    display.console.print(stage.table(summary))
    files = "summary.json, metrics.jsonl, curve.png, checkpoints/, tensorboard/"
    display.say(f"results in {path}: {files}")
