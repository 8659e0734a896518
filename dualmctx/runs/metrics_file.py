"""The metrics of a run: `metrics.jsonl`, a journal with one row per iteration."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.errors import UserError
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
