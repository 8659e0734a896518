"""Messages of a run: its failures, and the command that continues it."""

import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path

import jax

from dualmctx.experiment.stage import StageRun
from dualmctx.runs.folder import read_config
from dualmctx.runs.network_record import factory_of
from dualmctx.training.divergence import first_line


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


def describe_divergence(run: StageRun, iteration: int, divergence: str) -> str:
    """Describes a run that diverged, its last good checkpoint and the remedy.

    Args:
      run: the run.
      iteration: the iteration that diverged.
      divergence: the problem, see `check_divergence`.
    """
    factory = factory_of(read_config(run.folder.path))
    own = f"; if it fails too, look for NaN in the outputs of {factory}" if factory else ""
    flag, rate = run.learning_rate or ("", 0.0)
    remedy = f"; start a new run with a {flag} below {rate:g}" if flag else ""
    return (
        f"training failed in iteration {iteration}: {divergence}; {last_checkpoint(run)}; "
        f"--resume would fail again{remedy}{own}"
    )


def describe_failure(run: StageRun, error: BaseException) -> str:
    """Describes a failed resource, the last checkpoint of the run and the remedy."""
    message = first_line(error)
    with contextlib.suppress(OSError):
        run.checkpoints.wait()
    has_checkpoint = run.checkpoints.latest() is not None
    resume = "--resume " + ("continues there" if has_checkpoint else "starts again")
    is_of_device = isinstance(error, jax.errors.JaxRuntimeError)
    if isinstance(error, MemoryError) or (is_of_device and "RESOURCE_EXHAUSTED" in str(error)):
        remedy = (
            f"with more memory or devices, {resume}; or start a new run with a smaller "
            f"{run.smaller}"
        )
    else:
        remedy = f"after the cause is fixed, {resume}"
    return f"{message}; {last_checkpoint(run)}; {remedy}"


def last_checkpoint(run: StageRun) -> str:
    """Names the newest checkpoint."""
    last = run.checkpoints.latest()
    if last is None:
        return "no checkpoint was saved"
    return f"the last good checkpoint is iteration {last} in {run.folder.checkpoints}"
