"""The interface between a stage of training and the runner.

Training by self-play is one stage; AlphaGo's pipeline has four others.
"""

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dualmctx.reports.table import Table
from dualmctx.runs.checkpoint import Checkpoints
from dualmctx.runs.folder import RunFolder
from dualmctx.runs.metrics_file import Logger, Row
from dualmctx.runs.progress import Described

Say = Callable[[str], None]
"""Prints a line."""


def one_line(describe: Callable[[Row], str]) -> Callable[[Row], Described]:
    """Makes the field `describe` of a stage from a description of at most 43 columns.

    The line of a row with evals, whose entries have a slash, is also the line of the last evals.
    """

    def described(row: Row) -> Described:
        text = describe(row)
        return Described((text,), text if any("/" in name for name in row) else "")

    return described


def last_evals(rows: list[Row]) -> Row:
    """Returns the entries of the last evals, which have a slash; empty if there were none."""
    evals = ({name: x for name, x in row.items() if "/" in name} for row in reversed(rows))
    return next(filter(None, evals), {})


class Stage(NamedTuple):
    """A stage of training, ready to run.

    A state is a pytree with the fields `params`, the parameters of the network, and `iteration`,
    the number of completed iterations (scalar int32).

    Attributes:
      num_iterations: the number of iterations of the whole stage.
      init: returns the initial state, which the seed of the configuration and the inputs determine.
      iterate: runs one iteration; returns the new state and the numbers of its row. It may donate
        the old state. Its results must depend on the state alone, so that a resumed stage gives the
        same numbers. An entry `seconds` replaces the measured time of the iteration.
      evaluate: runs the evals; returns numbers. Those with a slash, such as
        `validation/policy_top1`, are also entries of the summary.
      eval_every: iterations between evals; 0 for none on the way.
      describe: describes a row, see `one_line`. A row has entries of evals only where evals ran.
      plot: `(rows, title, file)`; writes the picture.
      summarize: `(state, rows)`; returns further entries of `summary.json`. The runner adds
        `stage`, `title`, `iterations`, `seconds`, `wall_seconds` and the last evals.
      table: lays out the summary as a table of at most 80 columns.
      about: describes the stage in one line, for the start of the output.
      notes: returns further lines for the start of the output.
      prepare: called once before the first iteration of each process, with a function that prints a
        line. It may compile, and make files that the iterations read. It must continue its own work
        if it was interrupted.
      evaluates_last: whether the last iteration always has evals, which may be larger than those on
        the way. If not, `summarize` measures the final network.
      shapes: the shapes and dtypes of a state; `None` to take them from `init`.
      place: puts a restored state, of NumPy arrays, on the devices.
      num_actions: the number of actions of the game, for a limit of the losses of self-play; see
        `check_divergence`.
      is_over: given the rows, says why the stage ends early; empty if it does not.
    """

    name: str
    num_iterations: int
    init: Callable[[], Any]
    iterate: Callable[[Any], tuple[Any, dict[str, Any]]]
    evaluate: Callable[[Any], dict[str, Any]]
    eval_every: int
    describe: Callable[[Row], Described]
    plot: Callable[[list[Row], str, Path], None]
    summarize: Callable[[Any, list[Row]], dict[str, Any]]
    table: Callable[[dict[str, Any]], Table]
    about: str = ""
    notes: Callable[[], list[str]] = list
    prepare: Callable[[Say], None] = lambda say: None
    evaluates_last: bool = True
    shapes: Any = None
    # A copy, because an iteration may donate it.
    place: Callable[[Any], Any] = functools.partial(jax.tree.map, jnp.array)
    num_actions: int | None = None
    is_over: Callable[[list[Row]], str] = lambda rows: ""


class StageRun(NamedTuple):
    """A stage with its folder.

    Attributes:
      title: the preset, and the stage if it is one of several, for messages and results.
      resume: whether to continue from the newest checkpoint, if there is one.
      warn: called with a message about each damaged checkpoint.
      smaller: the flags that reduce the memory of the run, for messages.
      learning_rate: the flag of the learning rate and its value, for messages; `None` if there is
        none.
      checkpoint_minutes: minutes after which a checkpoint is due in any case; `None` for never.
      open_logger: opens a logger in addition to the files of the run; `None` for none.
    """

    stage: Stage
    folder: RunFolder
    checkpoints: Checkpoints
    title: str
    checkpoint_every: int
    resume: bool
    warn: Say
    smaller: str
    learning_rate: tuple[str, float] | None = None
    checkpoint_minutes: float | None = None
    open_logger: Callable[[], contextlib.AbstractContextManager[Logger]] | None = None
