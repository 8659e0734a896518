"""Messages of a training run: its description, failures, and commands to continue."""

import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Protocol

import jax

from dualmctx.distributed.devices import choose_devices
from dualmctx.experiment.assemble import Run
from dualmctx.policies.budgets import tree_budgets
from dualmctx.runs.checkpoint import Checkpoints
from dualmctx.runs.folder import RunFolder, read_config
from dualmctx.runs.network_record import factory_of
from dualmctx.training.config import Config
from dualmctx.training.divergence import first_line


class SavedRun(Protocol):
    """A run with its folder and its checkpoints."""

    @property
    def folder(self) -> RunFolder:
        """The folder of the run."""
        ...

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints in that folder."""
        ...


def describe_run(run: Run) -> str:
    """Describes a run in one line: search, budgets, games and devices."""
    config = run.config
    numbers = " + ".join(map(str, tree_budgets(config.search)))
    devices = choose_devices(config.devices)
    where = f"{len(devices)} × {devices[0].device_kind}" if devices[1:] else devices[0].device_kind
    processes = jax.process_count()
    return (
        f"{type(config.search).__name__} with {numbers} simulations per move, "
        f"{config.selfplay.num_games} games in parallel, on {where}"
        + (f" in {processes} processes" if processes > 1 else "")
    )


def describe_schedule(config: Config) -> str:
    """Describes the learning rates of a run whose schedule has a length of its own."""
    rate, length = config.learner.learning_rate, config.schedule_iterations
    return f"the learning rate falls to {rate / 10:g} over {length} iterations, then stays there"


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

    Args:
      error: the reason, such as bad input.
      path: the folder of the run.
      resume: whether it is an earlier run. Then the settings in the folder may be the reason, so
        the message names it.
    """
    reason = first_line(error)
    if not resume or str(path) in reason:
        return reason
    return f"the run in {path} cannot be resumed: {reason}"


def describe_divergence(
    run: SavedRun, iteration: int, divergence: str, group: str, learning_rate: float
) -> str:
    """Describes a run that diverged, its last good checkpoint and the remedy.

    Args:
      run: the run.
      iteration: the iteration that diverged.
      divergence: the problem, see `check_divergence`.
      group: the group of flags with the learning rate, such as `learner`.
      learning_rate: the learning rate of the run.
    """
    factory = factory_of(read_config(run.folder.path))
    own = f"; if it fails too, look for NaN in the outputs of {factory}" if factory else ""
    return (
        f"training failed in iteration {iteration}: {divergence}; {last_checkpoint(run)}; "
        f"--resume would fail again; start a new run with a --{group}.learning-rate below "
        f"{learning_rate:g}{own}"
    )


def describe_failure(
    run: SavedRun | None,
    error: BaseException,
    smaller: str = "--selfplay.num-games or --learner.capacity",
) -> str:
    """Describes a failed resource; for an assembled run, also its checkpoint and the remedy.

    Args:
      run: the run; `None` if it was not assembled.
      error: the failure.
      smaller: the flags that reduce the memory of the run.
    """
    message = first_line(error)
    if run is None:
        return message
    with contextlib.suppress(OSError):
        run.checkpoints.wait()
    has_checkpoint = run.checkpoints.latest() is not None
    resume = "--resume " + ("continues there" if has_checkpoint else "starts again")
    is_of_device = isinstance(error, jax.errors.JaxRuntimeError)
    if isinstance(error, MemoryError) or (is_of_device and "RESOURCE_EXHAUSTED" in str(error)):
        remedy = (
            f"with more memory or devices, {resume}; or start a new run with a smaller {smaller}"
        )
    else:
        remedy = f"after the cause is fixed, {resume}"
    return f"{message}; {last_checkpoint(run)}; {remedy}"


def last_checkpoint(run: SavedRun) -> str:
    """Names the newest checkpoint."""
    last = run.checkpoints.latest()
    if last is None:
        return "no checkpoint was saved"
    return f"the last good checkpoint is iteration {last} in {run.folder.checkpoints}"
