"""Runs a stage: restores it, iterates, measures, logs, saves, and writes its results."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.console import Console
from dualmctx.distributed.signals import stopped_on_request
from dualmctx.errors import UserError
from dualmctx.experiment.loop import STOPPED, RunFailed
from dualmctx.experiment.messages import describe_failure, resume_command
from dualmctx.pipeline.iteration import IS_FINAL_EVAL, Clock, StageRun, measure, run_iteration
from dualmctx.pipeline.stage import Row, Stage, StageState
from dualmctx.runs.display import Described, Display
from dualmctx.runs.folder import SUMMARY
from dualmctx.runs.journal import write_rows
from dualmctx.runs.loggers import tensorboard
from dualmctx.runs.metrics_file import Metrics, open_metrics
from dualmctx.runs.restore import restore
from dualmctx.training.divergence import FAILURES, first_line


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
            state, metrics = _initial_state(run)
        except UserError as error:
            raise RunFailed(first_line(error)) from error
        with tensorboard(run.folder.path / "tensorboard", int(state.iteration)) as log:
            return _train(run, state, metrics, log, console)
    # The files of a data set may turn out to be damaged while they are read.
    except (UserError, *FAILURES) as error:
        smaller = "batch-size" if hasattr(run.options, "batch_size") else "num-games"
        message = describe_failure(run, error, f"--{run.group}.{smaller}")
        raise RunFailed(message) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt("; --resume continues from the last checkpoint") from None
    finally:
        # Hold the lock of the folder until background writes end.
        with contextlib.suppress(OSError):
            run.checkpoints.wait()


def _initial_state(run: StageRun) -> tuple[StageState, Metrics]:
    """Returns the initial or restored state, and the rows up to its iteration.

    Raises:
      ValueError: if no checkpoint can be read, it is of another configuration, or a row up to its
        iteration is missing.
    """
    state = run.stage.init()
    # A run that was stopped before its first checkpoint starts from the beginning.
    if run.resume and run.checkpoints.latest() is not None:
        restored = restore(run.folder, run.checkpoints, state, run.warn)
        # A copy, because an iteration may donate the arrays.
        state = jax.tree.map(jnp.array, restored)
    return state, open_metrics(run.folder.metrics, int(state.iteration), run.warn)


def fetch_copy(state: Any) -> Any:
    """Copies a state to NumPy arrays, which an iteration that donates the state cannot change."""
    return jax.tree.map(np.array, state)


def _train(
    run: StageRun,
    state: StageState,
    metrics: Metrics,
    log: Callable[[Row], None],
    console: Console | None,
) -> int:
    """Runs the iterations that are left; returns the exit code, 0 or 130."""
    stage, done, rows = run.stage, int(state.iteration), metrics.rows
    describe = _describe_fn(stage)
    with Display(
        stage.num_iterations, done, console, title=stage.name, describe=describe
    ) as display:
        display.say(": ".join(filter(None, (run.title, stage.about))))
        display.say(f"writing to {run.folder.path}")
        clock = Clock(rows)
        if done < stage.num_iterations:
            # An earlier summary would say that the stage has finished.
            (run.folder.path / SUMMARY).unlink(missing_ok=True)
            stage.prepare(display.say)
        outputs = (metrics.append, log, display.show)
        with stopped_on_request(display.say) as stop:
            while int(state.iteration) < stage.num_iterations and not stop:
                state = run_iteration(run, state, rows, outputs, clock)
            run.checkpoints.save(int(state.iteration), state)
            run.checkpoints.wait()
        if int(state.iteration) < stage.num_iterations:
            command = resume_command()
            display.say(f"saved iteration {int(state.iteration)}; continue with: {command}")
            return STOPPED
        _require_final_evals(run, state, rows, (log, display.show), clock)
        _finish(run, state, rows, display)
    return STOPPED if stop else 0


def _require_final_evals(
    run: StageRun,
    state: StageState,
    rows: list[Row],
    outputs: Sequence[Callable[[Row], None]],
    clock: Clock,
) -> None:
    """Runs the final evals if the last row has none: a resumed run may end earlier than planned."""
    if not rows or rows[-1].get(IS_FINAL_EVAL):
        return
    rows[-1] |= measure(run.stage, state)
    rows[-1]["wall_seconds"] = clock.elapsed()
    write_rows(run.folder.metrics, rows)
    for write in outputs:
        write(rows[-1])


def _describe_fn(stage: Stage) -> Callable[[Row], Described]:
    def describe(row: Row) -> Described:
        text = stage.describe(row)
        return Described((text,), text if any("/" in name for name in row) else "")

    return describe


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
    run.folder.write_json(SUMMARY, summary)
    display.console.print(stage.table(summary))
    files = f"{SUMMARY}, metrics.jsonl, curve.png, checkpoints/, tensorboard/"
    display.say(f"results in {path}: {files}")
