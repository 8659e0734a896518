"""Runs of training that can be stopped after every step, one step of each in turn."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax

from dualmctx.experiment.evals import EvalFn
from dualmctx.reproduction.steps import (
    Learning,
    Row,
    StepFn,
    compile_step,
    make_eval,
    on_device,
)
from dualmctx.runs.checkpoint import Checkpoints, claim_checkpoints
from dualmctx.runs.folder import RunFolder, create_run, read_config, read_rows, reopen_run
from dualmctx.runs.recorded_config import check_config
from dualmctx.runs.saved_network import Trained, export_trained, load_trained
from dualmctx.training.trainer import TrainState

Programs = dict[str, tuple[StepFn, EvalFn | None]]
"""A step and an exam of each algorithm, by its name."""


class Run(NamedTuple):
    """A run so far: an algorithm in a game with a seed.

    Attributes:
      learning: who learns what.
      seed: of the run.
      folder: with `config.json`, a row a step in `metrics.jsonl`, the parameters after each step
        in `steps/`, and the newest state in `checkpoints/`.
      checkpoints: of the state.
      state: to go on from.
      rows: so far.
    """

    learning: Learning
    seed: int
    folder: RunFolder
    checkpoints: Checkpoints
    state: TrainState
    rows: list[Row]

    @property
    def step(self) -> int:
        """How many steps are done."""
        return len(self.rows)


def step_file(path: Path, step: int) -> Path:
    """Returns where a run in a folder keeps the parameters after a step; 0 is before the first."""
    return path / "steps" / f"{step:04d}.npz"


def open_run(learning: Learning, seed: int, path: Path) -> Run:
    """Begins a run or goes on with the one in a folder.

    Raises:
      ValueError: when the folder holds another run, or nothing of it can be read, in one line.
    """
    open_folder = reopen_run if (path / "config.json").exists() else create_run
    folder = open_folder(path, learning.record(seed))
    checkpoints = claim_checkpoints(folder.checkpoints, config=read_config(path))
    state = learning.init(seed)
    if checkpoints.latest() is not None:
        restored = checkpoints.restore(state)
        check_config(path, restored.step, restored.config)
        for step in restored.damaged:
            checkpoints.set_aside(step)
        state = on_device(restored.state)
    run = Run(learning, seed, folder, checkpoints, state, folder.keep_rows(int(state.iteration)))
    if not run.step:
        _export(run)
    return run


def is_done(learning: Learning, path: Path) -> bool:
    """Tells whether the run in a folder is complete."""
    file = RunFolder(path).metrics
    # A row follows the parameters of its step.
    return file.exists() and len(read_rows(file)) >= learning.size.steps


def compile_programs(runs: Iterable[Run], steps: int) -> Programs:
    """Compiles what runs need to have so many steps, once for all runs of an algorithm."""
    programs: Programs = {}
    for run in runs:
        name = run.learning.name
        if run.step < steps and name not in programs:
            programs[name] = (compile_step(run.learning, run.state), make_eval(run.learning))
    return programs


def train(runs: Iterable[Run], programs: Programs, steps: int) -> Iterator[Run]:
    """Trains until all runs have so many steps, a step of each in turn; yields each after a step.

    So whatever slows the machine for a while slows all of them. Compiling, saving and exams are in
    no time that is reported.
    """
    runs = list(runs)
    for step in range(1, steps + 1):
        for i, run in enumerate(runs):
            if run.step < step:
                runs[i] = _advance(run, *programs[run.learning.name])
                yield runs[i]


def _advance(run: Run, step_fn: StepFn, eval_fn: EvalFn | None) -> Run:
    state, row = step_fn(run.state)
    row["seconds"] = row["selfplay_seconds"] + row["learn_seconds"]
    if eval_fn is not None:
        begin = time.perf_counter()
        row |= eval_fn(state.params, jax.random.PRNGKey(row["iteration"]))
        row["eval_seconds"] = time.perf_counter() - begin
    run = run._replace(state=state, rows=[*run.rows, row])
    _export(run)
    run.folder.append_row(row)
    run.checkpoints.save(run.step, state)
    # Nothing is to be written while the next run is timed.
    run.checkpoints.wait()
    return run


def _export(run: Run) -> None:
    learning = run.learning
    record = read_config(run.folder.path)
    trained = Trained(learning.env, learning.network, run.state.params, run.step, record)
    export_trained(trained, step_file(run.folder.path, run.step))


def load_step(path: Path, step: int) -> Trained:
    """Loads what a run has learned after a step."""
    return load_trained(step_file(path, step))
