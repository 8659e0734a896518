"""The metrics of a run: `metrics.jsonl`, with a row per iteration, and loggers of the same rows."""

import contextlib
import importlib
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_write_text, naming
from dualmctx.runs.journal import read_rows, reopen_journal

Row = dict[str, Any]
"""The metrics of an iteration, by name."""
_REMEDY = "put back a copy of the file, or start again in another folder"


class Metrics(NamedTuple):
    """The metrics of a run that is being written.

    Attributes:
      rows: the rows up to the iteration from which the run continues.
      append: appends a row to the file; it is on the disk when the function returns.
    """

    rows: list[Row]
    append: Callable[[Row], None]


def read_metrics(file: Path, remedy: str = _REMEDY) -> list[Row]:
    """Returns the complete rows: those of iterations 1, 2, 3 and so on; without a file, none.

    Args:
      file: the file.
      remedy: the end of the message about a damaged file.

    Raises:
      UserError: if the file is damaged, or an iteration is missing.
    """
    rows = read_rows(file, remedy)
    for number, row in enumerate(rows, start=1):
        found = row.get("iteration")
        if found != number:
            raise UserError(
                f"{file}, line {number} has iteration {found} in place of {number}; {remedy}"
            )
    return rows


def open_metrics(file: Path, iteration: int, say: Callable[[str], None]) -> Metrics:
    """Opens the metrics to continue a run after an iteration.

    Later rows are removed, because the resumed run makes them again.

    Args:
      file: the file; it exists once there is a row.
      iteration: the iteration of the checkpoint from which the run continues; 0 for its start.
      say: called with a message about rows that were removed.

    Raises:
      UserError: if a row up to the iteration is missing, or the file is damaged; it stays unchanged
        then.
    """
    remedy = f"{_REMEDY}; lines after {iteration} may be removed: the run makes them again"
    rows = read_metrics(file, remedy)
    journal = reopen_journal(file, least=iteration, remedy=remedy, say=say)
    if len(rows) > iteration:
        journal.cut(iteration)
        say(
            f"{file}: the rows after iteration {iteration} were removed, because there is no "
            "later checkpoint; the run makes them again"
        )
    return Metrics(rows[:iteration], lambda row: journal.append([row]))


Logger = Callable[[dict[str, Any]], None]
"""Logs a row of `metrics.jsonl`."""


@contextlib.contextmanager
def tensorboard(folder: Path, done: int) -> Iterator[Logger]:
    """Yields a logger that writes every number of a row, at its iteration, for TensorBoard.

    The logger returns when the row is on disk. A resumed run writes a new file, which overrides
    later iterations in older files.

    Args:
      folder: the folder of the logs.
      done: the number of iterations completed by earlier processes.
    """
    # SummaryWriter passes rows to a thread, and its flush does not wait for queued rows. File names
    # contain the time in seconds; the suffix keeps a quick restart from overwriting a file.
    with naming(folder):
        folder.mkdir(exist_ok=True)
        writer = EventsWriter(str(folder / "events"), f".{done}")
        # Needed at iteration 0 too: the run may have been killed before its first checkpoint.
        log = SessionLog(status=SessionLog.SessionStatus.START)
        writer.write_event(Event(step=done + 1, session_log=log, wall_time=time.time()))

    def write(row: dict[str, Any]) -> None:
        values = [Summary.Value(tag=name, simple_value=x) for name, x in _numbers(row).items()]
        summary, step = Summary(value=values), row["iteration"]
        with naming(folder):
            writer.write_event(Event(step=step, summary=summary, wall_time=time.time()))
            writer.flush()

    try:
        yield write
    finally:
        with naming(folder):
            writer.close()


def require_wandb() -> Any:
    """Imports wandb and logs in; returns the module.

    Raises:
      ValueError: if wandb is not installed, or the login fails.
    """
    try:
        wandb = importlib.import_module("wandb")
    except ImportError:
        raise UserError(
            'wandb is not installed; use pip install "dualmctx[wandb]", or omit --wandb'
        ) from None
    if wandb.setup().settings.mode in ("offline", "disabled"):
        return wandb
    try:
        is_logged_in = wandb.login()
    except wandb.Error:
        is_logged_in = False
    if not is_logged_in:
        raise UserError(
            "wandb is not logged in; use wandb login, or WANDB_MODE=offline, or omit --wandb"
        )
    return wandb


@contextlib.contextmanager
def weights_and_biases(
    wandb: Any, folder: Path, project: str, config: dict[str, Any]
) -> Iterator[Logger]:
    """Yields a logger that sends every number of a row, at its iteration, to Weights & Biases.

    A resumed run continues the same run there. A repeated iteration gives the same numbers as
    before; those already logged are kept.

    Args:
      wandb: the module.
      folder: the run's folder, where the id of the run at Weights & Biases is stored.
      project: the project at Weights & Biases.
      config: the configuration, which is shown with the run.

    Raises:
      ConnectionError: if wandb cannot start the run or log to it.
    """
    name = folder / "wandb_id"
    if not name.exists():
        atomic_write_text(name, uuid.uuid4().hex[:16])
    options = {"id": name.read_text(), "resume": "allow", "dir": str(folder), "config": config}
    try:
        run = wandb.init(project=project, name=folder.name, **options)
        try:
            yield lambda row: run.log(_numbers(row), step=row["iteration"])
        finally:
            run.finish()
    except wandb.Error as error:
        reason = str(error).strip().split("\n")[0]
        raise ConnectionError(
            f"wandb failed: {reason}; use WANDB_MODE=offline, or omit --wandb"
        ) from error


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    return {name: x for name, x in row.items() if isinstance(x, int | float)}
