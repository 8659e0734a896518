"""Where the rows of a run go besides its folder: logs for TensorBoard and Weights & Biases."""

import contextlib
import importlib
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from dualmctx.runs.atomic_io import atomic_write_text

Logger = Callable[[dict[str, Any]], None]
"""Takes a row of `metrics.jsonl`."""


@contextlib.contextmanager
def tensorboard(folder: Path, done: int) -> Iterator[Logger]:
    """Logs every number of a row, at its iteration, for TensorBoard.

    A row is on the disk before the sink returns. A run that goes on writes a file of its own, and
    what older ones have of later iterations no longer counts.

    Args:
      folder: where the logs are.
      done: iterations that were done before.
    """
    folder.mkdir(exist_ok=True)
    # Not SummaryWriter, which hands rows to a thread: its flush does not wait for those on the way.
    # Files are named after the second; the suffix keeps a quick restart from overwriting one.
    writer = EventsWriter(str(folder / "events"), f".{done}")
    # At 0 as well, as a run may have been killed before its first checkpoint.
    log = SessionLog(status=SessionLog.SessionStatus.START)
    writer.write_event(Event(step=done + 1, session_log=log, wall_time=time.time()))

    def write(row: dict[str, Any]) -> None:
        values = [Summary.Value(tag=name, simple_value=x) for name, x in _numbers(row).items()]
        summary, step = Summary(value=values), row["iteration"]
        writer.write_event(Event(step=step, summary=summary, wall_time=time.time()))
        writer.flush()

    try:
        yield write
    finally:
        writer.close()


def require_wandb() -> Any:
    """Returns the module wandb, ready to log.

    Raises:
      ValueError: when it is not installed, or nobody is logged in, in one line.
    """
    try:
        wandb = importlib.import_module("wandb")
    except ImportError:
        raise ValueError(
            'wandb is not installed; use pip install "dualmctx[wandb]", or leave --wandb out'
        ) from None
    if wandb.setup().settings.mode in ("offline", "disabled"):
        return wandb
    try:
        is_logged_in = wandb.login()
    except wandb.Error:
        is_logged_in = False
    if not is_logged_in:
        raise ValueError(
            "wandb is not logged in; use wandb login, or WANDB_MODE=offline, or leave --wandb out"
        )
    return wandb


@contextlib.contextmanager
def weights_and_biases(
    wandb: Any, folder: Path, project: str, config: dict[str, Any]
) -> Iterator[Logger]:
    """Logs every number of a row, at its iteration, to a project of Weights & Biases.

    A run that goes on is the same one there. It keeps what it has of iterations that are done
    again, which bring the same numbers.

    Args:
      wandb: the module.
      folder: the run's, in which the name that the run has there is kept.
      project: of Weights & Biases.
      config: shown with the run.

    Raises:
      ConnectionError: when wandb cannot begin the run or log to it, in one line.
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
            f"wandb has failed: {reason}; use WANDB_MODE=offline, or leave --wandb out"
        ) from error


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    return {name: x for name, x in row.items() if isinstance(x, int | float)}
