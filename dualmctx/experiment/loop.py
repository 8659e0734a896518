"""The training loop: assembles a run, trains it to its end and writes its results."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from dualmctx.distributed.devices import local
from dualmctx.distributed.signals import stopped_on_request
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import Run, assemble, folder_of
from dualmctx.experiment.evals import is_solved, run_evals
from dualmctx.experiment.initial_params import with_params
from dualmctx.experiment.messages import (
    describe_divergence,
    describe_failure,
    describe_refusal,
    describe_run,
    describe_schedule,
    resume_command,
)
from dualmctx.experiment.multihost import spread
from dualmctx.policies.budgets import tree_budgets
from dualmctx.runs.display import Display, summary_table
from dualmctx.runs.folder import SUMMARY, lock_folder
from dualmctx.runs.loggers import Logger, require_wandb, tensorboard, weights_and_biases
from dualmctx.runs.metrics_file import Metrics, Row, open_metrics
from dualmctx.runs.plot import plot_training
from dualmctx.runs.restore import restore
from dualmctx.training.config import Config
from dualmctx.training.divergence import FAILURES, check_divergence
from dualmctx.training.memory_budget import describe_memory
from dualmctx.training.trainer import IterateFn, TrainState

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


def run_training(name: str, config: Config, warn: Callable[[str], None]) -> int:
    """Runs or resumes training, with the run's folder locked.

    Args:
      name: the preset, for the folder and the records.
      config: the configuration.
      warn: called with a message about each damaged checkpoint that was skipped.

    Returns:
      0 at the end of training, or 130 if Ctrl-C or SIGTERM stopped it after a checkpoint.

    Raises:
      RunFailed: for bad input, if memory, the disk, the network or a device fails, or if training
        diverges.
      KeyboardInterrupt: if the run is stopped before training or by a second signal. Its argument,
        if any, says how to continue.
    """
    run = None
    with contextlib.ExitStack() as stack:
        try:
            try:
                wandb = None if config.wandb is None else require_wandb()
                lock = lock_folder(folder_of(name, config), resume=config.resume)
                stack.enter_context(lock)
                run = assemble(name, config)
                state, metrics = initial_state(run, warn)
            except UserError as error:
                path = folder_of(name, config)
                raise RunFailed(describe_refusal(error, path, resume=config.resume)) from error
            with open_loggers(run, wandb, int(state.iteration)) as loggers:
                return train(run, state, metrics.rows, [metrics.append, *loggers])
        except (UserError, *FAILURES) as error:
            raise RunFailed(describe_failure(run, error)) from error
        except KeyboardInterrupt:
            if run is None:
                raise KeyboardInterrupt from None
            # Python waits for background writes at exit anyway. Hold the lock until they end.
            with contextlib.suppress(OSError):
                run.checkpoints.wait()
            remedy = "; --resume continues from the last checkpoint"
            raise KeyboardInterrupt(remedy) from None


def initial_state(run: Run, warn: Callable[[str], None]) -> tuple[TrainState, Metrics]:
    """Initialises or restores the training state; returns it with the rows up to its iteration.

    Damaged checkpoints are moved aside, and `warn` gets a line about each.

    Raises:
      ValueError: if no checkpoint can be read, the newest readable one was saved with another
        configuration, or a row up to its iteration is missing.
    """
    # A run that was stopped before its first checkpoint starts from the beginning.
    if not run.config.resume or run.checkpoints.latest() is None:
        state = run.trainer.init(run.config.seed)
        if run.initial_params is not None:
            state = with_params(state, run.initial_params, run.trainer)
        return state, open_metrics(run.folder.metrics, int(state.iteration), warn)
    # Only shapes are passed, because a device may not have room for two states.
    restored = restore(run.folder, run.checkpoints, run.shapes, warn)
    state = spread(restored, run.trainer.shardings)
    return state, open_metrics(run.folder.metrics, int(state.iteration), warn)


@contextlib.contextmanager
def open_loggers(run: Run, wandb: Any, num_done: int) -> Iterator[list[Logger]]:
    """Opens the logs for TensorBoard and, unless `wandb` is `None`, for Weights & Biases."""
    folder = run.folder.path
    with contextlib.ExitStack() as stack:
        loggers = [stack.enter_context(tensorboard(folder / "tensorboard", num_done))]
        if wandb is not None:
            log = weights_and_biases(wandb, folder, str(run.config.wandb), run.record)
            loggers.append(stack.enter_context(log))
        yield loggers


def train(run: Run, state: TrainState, rows: list[Row], loggers: Sequence[Logger]) -> int:
    """Trains until the end, a request to stop, or divergence.

    Args:
      run: the assembled run.
      state: the state to continue from.
      rows: the rows up to that state; new rows are appended.
      loggers: called with each new row, before a checkpoint of its iteration is saved.

    Returns:
      0, or 130 after a request to stop.

    Raises:
      RunFailed: if training diverges. No checkpoint is saved then, so the newest one is from
        before the divergence.
    """
    config = run.config
    with Display(config.num_iterations, int(state.iteration)) as display:
        display.say(f"{run.name}: {describe_run(run)}; writing to {run.folder.path}")
        display.say(describe_memory(run.memory))
        if run.initial_params is not None:
            display.say(f"starting from the parameters of {config.init_from}")
        if config.schedule_iterations is not None:
            display.say(describe_schedule(config))
        start = time.perf_counter()
        iterate = run.trainer.compile(state)
        display.say(f"compiled in {time.perf_counter() - start:.0f} s")
        is_due = checkpoint_rule(config)
        outputs = (*loggers, display.show)
        with stopped_on_request(display.say) as stop:
            while int(state.iteration) < config.num_iterations and not stop:
                streak = count_solved_streak(rows)
                if 0 < config.evals.stop_when_solved <= streak:
                    display.say(f"optimal play in {streak} consecutive evals: training ends early")
                    break
                state = train_iteration(run, iterate, state, rows, outputs, is_due)
            run.checkpoints.save(int(state.iteration), state)
            run.checkpoints.wait()
    if stop:
        display.say(f"saved iteration {int(state.iteration)}; continue with: {resume_command()}")
        return STOPPED
    finish(run, state, rows, display)
    return 0


def train_iteration(
    run: Run,
    iterate: IterateFn,
    state: TrainState,
    rows: list[Row],
    outputs: Sequence[Logger],
    is_due: Callable[[int], bool],
) -> TrainState:
    """Runs one iteration, writes its row to `outputs`, and saves a checkpoint if one is due.

    `is_due` says so for an iteration; see `checkpoint_rule`.

    Raises:
      RunFailed: if training diverges; the row is written first.
    """
    state, row = iterate_once(run, iterate, state, rows)
    divergence = check_divergence(row, rows, local(state.params), run.num_actions)
    if not divergence:
        row |= run_due_evals(run, state)
    rows.append(row)
    for write in outputs:
        write(row)
    if divergence:
        run.checkpoints.wait()
        message = describe_divergence(
            run, row["iteration"], divergence, "learner", run.config.learner.learning_rate
        )
        raise RunFailed(message, exit_code=3)
    if is_due(row["iteration"]):
        run.checkpoints.save(row["iteration"], state)
    return state


def checkpoint_rule(config: Config) -> Callable[[int], bool]:
    """Returns a function that tells, after each iteration, whether a checkpoint is due.

    The minutes count from the last checkpoint of this process, or from this call.
    """
    every, minutes = config.checkpoint_every, config.checkpoint_minutes
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


def iterate_once(
    run: Run, iterate: IterateFn, state: TrainState, rows: list[Row]
) -> tuple[TrainState, Row]:
    """Runs one iteration; returns the new state and the row of its metrics."""
    state, metrics = iterate(state)
    spent = metrics["selfplay_seconds"] + metrics["learn_seconds"]
    rate = metrics["positions"] / metrics["selfplay_seconds"]
    return state, {
        "iteration": int(state.iteration),
        "seconds": (rows[-1]["seconds"] if rows else 0.0) + spent,
        "games_per_second": metrics["games"] / metrics["selfplay_seconds"],
        "positions_per_second": rate,
        "simulations_per_second": rate * sum(tree_budgets(run.config.search)),
        **metrics,
    }


def run_due_evals(run: Run, state: TrainState) -> Row:
    """Runs the evals if they are due after this iteration; returns their metrics."""
    iteration, every = int(state.iteration), run.config.evals.every
    if not every or iteration % every:
        return {}
    start = time.perf_counter()
    results = run_evals(run.evals, local(state.params), jax.random.PRNGKey(iteration))
    return results | {"eval_seconds": time.perf_counter() - start}


def count_solved_streak(rows: list[Row]) -> int:
    """Counts the latest consecutive evals in which play was optimal."""
    evals = [is_solved(row) for row in rows if "path/search_optimal" in row]
    return [*reversed(evals), False].index(False)


def finish(run: Run, state: TrainState, rows: list[Row], display: Display) -> None:
    """Runs the final evals, writes the summary and the plot, and prints the table."""
    display.say("final evals …")
    seed = (run.config.seed + 1) % 2**32
    results = run_evals(run.final_evals, local(state.params), jax.random.PRNGKey(seed))
    summary = {
        "title": f"{run.name} after {int(state.iteration)} iterations",
        "iterations": int(state.iteration),
        "seconds": rows[-1]["seconds"] if rows else 0.0,
        "games": sum(row["games"] for row in rows),
        "positions": sum(row["positions"] for row in rows),
        "solved": is_solved(results),
        **run.num_positions,
        **results,
    }
    run.folder.write_json(SUMMARY, summary)
    game = " ".join([run.config.game, *(f"{x} {y}" for x, y in run.config.game_parameters.items())])
    title = f"{game}: preset {run.name}, {int(state.iteration)} iterations"
    plot_training(rows, title, run.folder.path / "curve.png")
    display.console.print(summary_table(summary))
    files = "summary.json, metrics.jsonl, curve.png, checkpoints/, tensorboard/"
    display.say(f"results in {run.folder.path}: {files}")
