"""Training runs that can be stopped after every step and take turns, one step each."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax

from dualmctx.experiment.evals import EvalFn
from dualmctx.reproduction.training_setup import (
    Row,
    StepFn,
    TrainingSetup,
    compile_step,
    make_eval,
    to_device,
)
from dualmctx.runs.checkpoint import Checkpoints, open_writable_checkpoints
from dualmctx.runs.folder import RunFolder, read_config
from dualmctx.runs.metrics_file import open_metrics, read_metrics
from dualmctx.runs.restore import restore
from dualmctx.runs.saved_network import Trained, export_trained, load_trained
from dualmctx.training.trainer import TrainState

Programs = dict[str, tuple[StepFn, EvalFn | None]]
"""The step and the eval of each algorithm, by its name."""


class Run(NamedTuple):
    """A run in progress: an algorithm in a game with a seed.

    Attributes:
      setup: the algorithm and the game.
      seed: the seed of the run.
      folder: holds `config.json`, one row per step in `metrics.jsonl`, the parameters after each
        step in `steps/`, and the newest state in `checkpoints/`.
      checkpoints: the checkpoints of the state.
      state: the current state.
      rows: the rows so far.
      append: appends a row to `metrics.jsonl`; see `dualmctx.runs.metrics_file.Metrics`.
    """

    setup: TrainingSetup
    seed: int
    folder: RunFolder
    checkpoints: Checkpoints
    state: TrainState
    rows: list[Row]
    append: Callable[[Row], None]

    @property
    def step(self) -> int:
        """Number of completed steps."""
        return len(self.rows)


def step_file(path: Path, step: int) -> Path:
    """Returns the path of a run's parameters after a step; step 0 is before training."""
    return path / "steps" / f"{step:04d}.safetensors"


def open_run(setup: TrainingSetup, seed: int, path: Path, warn: Callable[[str], None]) -> Run:
    """Starts a run, or continues the one in a folder.

    Args:
      setup: the algorithm and the game.
      seed: the seed of the run.
      path: the folder.
      warn: called with a line about each damaged checkpoint, which is moved aside, and about an
        incomplete row.

    Raises:
      ValueError: if the folder holds another run, none of its checkpoints can be read, or a row is
        damaged or missing.
    """
    folder = setup.open_folder(seed, path)
    checkpoints = open_writable_checkpoints(folder.checkpoints, config=read_config(path))
    state = setup.trainer.init(seed)
    if checkpoints.latest() is not None:
        state = to_device(setup, restore(folder, checkpoints, state, warn))
    metrics = open_metrics(folder.metrics, int(state.iteration), warn)
    run = Run(setup, seed, folder, checkpoints, state, *metrics)
    if not run.step:
        _export(run)
    return run


def is_done(setup: TrainingSetup, path: Path) -> bool:
    """Returns whether the run in a folder is complete."""
    # The row of a step is written after its parameters.
    return len(read_metrics(RunFolder(path).metrics)) >= setup.size.steps


def compile_programs(runs: Iterable[Run], steps: int) -> Programs:
    """Compiles the programs of the runs with fewer than `steps` steps, once per algorithm."""
    programs: Programs = {}
    for run in runs:
        name = run.setup.name
        if run.step < steps and name not in programs:
            programs[name] = (compile_step(run.setup, run.state), make_eval(run.setup))
    return programs


def train(runs: Iterable[Run], programs: Programs, steps: int) -> Iterator[Run]:
    """Trains until each run has `steps` steps; yields a run after each of its steps.

    The runs take turns, one step each, so a machine that slows down for a while slows all of them.
    Reported times exclude compilation, saving and evals.
    """
    runs = list(runs)
    for step in range(1, steps + 1):
        for i, run in enumerate(runs):
            if run.step < step:
                runs[i] = _take_step(run, *programs[run.setup.name])
                yield runs[i]


def _take_step(run: Run, step_fn: StepFn, eval_fn: EvalFn | None) -> Run:
    state, row = step_fn(run.state)
    row["seconds"] = row["selfplay_seconds"] + row["learn_seconds"]
    if eval_fn is not None:
        start = time.perf_counter()
        row |= eval_fn(state.params, jax.random.PRNGKey(row["iteration"]))
        row["eval_seconds"] = time.perf_counter() - start
    run = run._replace(state=state, rows=[*run.rows, row])
    _export(run)
    run.append(row)
    run.checkpoints.save(run.step, state)
    # Writing in the background would disturb the timing of the next run.
    run.checkpoints.wait()
    return run


def _export(run: Run) -> None:
    record = read_config(run.folder.path)
    trained = Trained(run.setup.env, run.setup.network, run.state.params, run.step, record)
    export_trained(trained, step_file(run.folder.path, run.step))


def load_step(path: Path, step: int) -> Trained:
    """Loads the network of a run after a step."""
    return load_trained(step_file(path, step))
