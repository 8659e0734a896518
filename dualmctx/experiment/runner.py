"""Runs a stage: restores it, iterates, measures, logs, saves, and writes its results or failure."""

import contextlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dualmctx.distributed.devices import local
from dualmctx.distributed.signals import stopped_on_request
from dualmctx.errors import UserError
from dualmctx.experiment.stage import Stage, StageRun, last_evals
from dualmctx.runs.checkpoint import restore
from dualmctx.runs.folder import SUMMARY, lock_folder, read_config
from dualmctx.runs.journal import write_rows
from dualmctx.runs.metrics_file import Logger, Metrics, Row, open_metrics, tensorboard
from dualmctx.runs.network_record import factory_of
from dualmctx.runs.progress import Display
from dualmctx.training.divergence import FAILURES, check_divergence, first_line

STOPPED = 130
"""The exit code after Ctrl-C or SIGTERM, as in shells."""


class RunFailed(Exception):
    """A run cannot start or continue. The message is one line for the user.

    Attributes:
      exit_code: 2 for bad input and for a failure of memory, disk, network or device; 3 if
        training diverged.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextlib.contextmanager
def locked_run(path: Path, *, resume: bool) -> Iterator[None]:
    """Holds the lock of the folder of a new or resumed run.

    Raises:
      RunFailed: in place of bad input and of a failure, which the message describes.
    """
    try:
        with lock_folder(path, resume=resume):
            yield
    except (UserError, *FAILURES) as error:
        raise RunFailed(describe_refusal(error, path, resume=resume)) from error


def run_stage(run: StageRun) -> int:
    """Runs or resumes a stage, whose folder is locked.

    Returns:
      0 at the end of the stage, or 130 if Ctrl-C or SIGTERM stopped it after a checkpoint.

    Raises:
      RunFailed: if a checkpoint or the files of the stage cannot be read, if memory, the disk, the
        network or a device fails, or if training diverges.
      KeyboardInterrupt: if it is stopped before its first iteration or by a second signal. Its
        argument says how to continue.
    """
    try:
        try:
            state, metrics = initial_state(run)
        except UserError as error:
            message = describe_refusal(error, run.folder.path, resume=run.resume)
            raise RunFailed(message) from error
        with contextlib.ExitStack() as stack:
            folder = run.folder.path / "tensorboard"
            loggers = [stack.enter_context(tensorboard(folder, int(state.iteration)))]
            if run.open_logger is not None:
                loggers.append(stack.enter_context(run.open_logger()))
            return train(run, state, metrics, loggers)
    # The files of a data set may turn out to be damaged while they are read.
    except (UserError, *FAILURES) as error:
        raise RunFailed(_describe_failure(run, error)) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"; {_resume(run, 'from the last checkpoint')}") from None
    finally:
        # Hold the lock of the folder until background writes end.
        with contextlib.suppress(OSError):
            run.checkpoints.wait()


def initial_state(run: StageRun) -> tuple[Any, Metrics]:
    """Returns the initial or restored state, and the rows up to its iteration.

    Raises:
      ValueError: if no checkpoint can be read, the newest readable one was saved with another
        configuration, or a row up to its iteration is missing.
    """
    stage = run.stage
    # A run that was stopped before its first checkpoint starts from the beginning.
    if run.resume and run.checkpoints.latest() is not None:
        # Only shapes are passed if they are known: a device may not have room for two states.
        shapes = stage.init() if stage.shapes is None else stage.shapes
        state = stage.place(restore(run.folder, run.checkpoints, shapes, run.warn))
    else:
        state = stage.init()
    return state, open_metrics(run.folder.metrics, int(state.iteration), run.warn)


def train(run: StageRun, state: Any, metrics: Metrics, loggers: Sequence[Logger]) -> int:
    """Runs the iterations that are left, and writes the results.

    The loggers are called with each new row, after the file and before a checkpoint is saved.

    Returns:
      0, or 130 after a request to stop.

    Raises:
      RunFailed: if training diverges. No checkpoint is saved then, so the newest one is from
        before the divergence.
    """
    stage, rows = run.stage, metrics.rows
    done = int(state.iteration)
    display = Display(stage.num_iterations, done, title=stage.name, describe=stage.describe)
    display.say(": ".join(filter(None, (run.title, stage.about))))
    for note in (f"writing to {run.folder.path}", *stage.notes()):
        display.say(note)
    start = time.perf_counter() - (rows[-1]["wall_seconds"] if rows else 0.0)

    def elapsed() -> float:
        # Of all processes, without the time between them.
        return time.perf_counter() - start

    if done < stage.num_iterations:
        # An earlier summary would say that the stage has finished.
        (run.folder.path / SUMMARY).unlink(missing_ok=True)
        stage.prepare(display.say)
    outputs = (*loggers, display.show)
    with display:
        with stopped_on_request(display.say) as stop:
            state = _iterate(run, state, rows, (metrics.append, *outputs), elapsed, stop)
            run.checkpoints.save(int(state.iteration), state)
            run.checkpoints.wait()
        if int(state.iteration) < stage.num_iterations:
            ending = stage.is_over(rows)
            if not ending:
                command = resume_command()
                display.say(f"saved iteration {int(state.iteration)}; continue with: {command}")
                return STOPPED
            display.say(ending)
        if rows and stage.evaluates_last and not last_evals(rows[-1:]):
            # A resumed run may end earlier than planned.
            rows[-1] |= _measure(stage, state) | {"wall_seconds": elapsed()}
            write_rows(run.folder.metrics, rows)
            for write in outputs:
                write(rows[-1])
        _finish(run, state, rows, display)
    return STOPPED if stop else 0


def _iterate(
    run: StageRun,
    state: Any,
    rows: list[Row],
    outputs: Sequence[Logger],
    elapsed: Callable[[], float],
    stop: list[float],
) -> Any:
    """Runs the iterations until the end or a request to stop; returns the last state."""
    stage, is_due = run.stage, checkpoint_rule(run.checkpoint_every, run.checkpoint_minutes)
    while int(state.iteration) < stage.num_iterations and not stop and not stage.is_over(rows):
        state, row = iterate_once(stage, state, rows)
        divergence = check_divergence(row, rows, local(state.params), stage.num_actions)
        is_regular = stage.eval_every > 0 and row["iteration"] % stage.eval_every == 0
        is_last = stage.evaluates_last and row["iteration"] == stage.num_iterations
        if not divergence and (is_regular or is_last):
            row |= _measure(stage, state)
        row["wall_seconds"] = elapsed()
        rows.append(row)
        for write in outputs:
            write(row)
        if divergence:
            run.checkpoints.wait()
            raise RunFailed(_describe_divergence(run, row["iteration"], divergence), exit_code=3)
        if is_due(row["iteration"]):
            run.checkpoints.save(row["iteration"], state)
    return state


def iterate_once(stage: Stage, state: Any, rows: list[Row]) -> tuple[Any, Row]:
    """Runs one iteration; returns the new state and its row, without evals."""
    start = time.perf_counter()
    state, entries = stage.iterate(state)
    numbers = {name: np.asarray(x).item() for name, x in entries.items()}
    spent = numbers.pop("seconds", time.perf_counter() - start)
    seconds = (rows[-1]["seconds"] if rows else 0.0) + spent
    return state, {"iteration": int(state.iteration), "seconds": seconds, **numbers}


def checkpoint_rule(every: int, minutes: float | None) -> Callable[[int], bool]:
    """Returns a function that tells, after each iteration, whether a checkpoint is due.

    The minutes count from the last checkpoint of this process, or from this call.
    """
    last = time.monotonic()

    def is_due(iteration: int) -> bool:
        nonlocal last
        now = time.monotonic()
        is_late = minutes is not None and now - last >= 60 * minutes
        if iteration % every and not is_late:
            return False
        last = now
        return True

    return is_due


def _measure(stage: Stage, state: Any) -> Row:
    """Runs the evals; returns their entries of a row, with `eval_seconds`."""
    start = time.perf_counter()
    row: Row = {name: np.asarray(x).item() for name, x in stage.evaluate(state).items()}
    row["eval_seconds"] = time.perf_counter() - start
    return row


def _finish(run: StageRun, state: Any, rows: list[Row], display: Display) -> None:
    """Writes the summary and the picture, and prints the table."""
    stage, path = run.stage, run.folder.path
    if not stage.evaluates_last:
        display.say("final evals …")
    summary = {
        "stage": stage.name,
        "title": f"{run.title} after {int(state.iteration)} iterations",
        "iterations": int(state.iteration),
        "seconds": rows[-1]["seconds"] if rows else 0.0,
        "wall_seconds": rows[-1]["wall_seconds"] if rows else 0.0,
        **last_evals(rows),
        **stage.summarize(state, rows),
    }
    stage.plot(rows, run.title, path / "curve.png")
    run.folder.write_json(SUMMARY, summary)
    display.console.print(stage.table(summary))
    files = f"{SUMMARY}, metrics.jsonl, curve.png, checkpoints/, tensorboard/"
    display.say(f"results in {path}: {files}")


def resume_command() -> str:
    """Returns this process's command line with `--resume`.

    A program is named by its path only if the shell finds another one by its name, or none.
    """
    script, *arguments = sys.argv
    interpreter = _shell_name(sys.executable, "python", "python3")
    # Under `python -m dualmctx`, the script is a file that cannot be run by its path.
    if Path(script).name == "__main__.py":
        program = [interpreter, "-m", "dualmctx"]
    elif script.endswith(".py"):
        program = [interpreter, script]
    else:
        program = [_shell_name(script, Path(script).name)]
    is_resumed = any(x.split("=")[0] == "--resume" for x in arguments)
    return shlex.join([*program, *arguments, *([] if is_resumed else ["--resume"])])


def _shell_name(program: str, *names: str) -> str:
    """Returns the first name by which the shell finds a program; else its shortest path."""
    path = os.path.abspath(program)
    for name in names:
        found = shutil.which(name)
        if found is not None and os.path.abspath(found) == path:
            return name
    return min(program, os.path.relpath(program), key=len)


def describe_refusal(error: BaseException, path: Path, *, resume: bool) -> str:
    """Describes why a run cannot start or continue.

    The settings in the folder of an earlier run may be the reason, so the message names it.
    """
    reason = first_line(error)
    if not resume or str(path) in reason:
        return reason
    return f"the run in {path} cannot be resumed: {reason}"


def _describe_divergence(run: StageRun, iteration: int, divergence: str) -> str:
    """Describes a run that diverged, see `check_divergence`, its last checkpoint and the remedy."""
    factory = factory_of(read_config(run.folder.path))
    own = f"; if it fails too, look for NaN in the outputs of {factory}" if factory else ""
    flag, rate = run.learning_rate or ("", 0.0)
    remedy = f"; start a new run with a {flag} below {rate:g}" if flag else ""
    return (
        f"training failed in iteration {iteration}: {divergence}; {_last_checkpoint(run)}; "
        f"--resume would fail again{remedy}{own}"
    )


def _describe_failure(run: StageRun, error: BaseException) -> str:
    """Describes a failed resource, the last checkpoint of the run and the remedy."""
    message = first_line(error)
    resume = _resume(run, "there")
    is_of_device = isinstance(error, jax.errors.JaxRuntimeError)
    if isinstance(error, MemoryError) or (is_of_device and "RESOURCE_EXHAUSTED" in str(error)):
        remedy = (
            f"with more memory or devices, {resume}; or start a new run with a smaller "
            f"{run.smaller}"
        )
    else:
        is_input = isinstance(error, UserError)
        when = "with the same settings" if is_input else "after the cause is fixed"
        remedy = f"{when}, {resume}"
    return f"{message}; {_last_checkpoint(run)}; {remedy}"


def _resume(run: StageRun, place: str) -> str:
    """Describes the effect of `--resume`; `place` names the last checkpoint."""
    with contextlib.suppress(OSError):
        run.checkpoints.wait()
    has_checkpoint = run.checkpoints.latest() is not None
    return "--resume " + (f"continues {place}" if has_checkpoint else "starts again")


def _last_checkpoint(run: StageRun) -> str:
    """Names the newest checkpoint."""
    last = run.checkpoints.latest()
    if last is None:
        return "no checkpoint was saved"
    return f"the last good checkpoint is iteration {last} in {run.folder.checkpoints}"
