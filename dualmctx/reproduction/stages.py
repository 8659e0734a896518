"""The stages of an experiment: training, matches, ratings. Each can be stopped and resumed."""

import json
from collections.abc import Callable
from typing import Any

from dualmctx.matches.game_file import read_games
from dualmctx.matches.tournament import count_played, play_batches
from dualmctx.matches.tournament_folder import GAMES as GAMES_FILE
from dualmctx.reproduction.equal_seconds import EQUAL, MEASURED, find_equal
from dualmctx.reproduction.experiments import GAMES, Algorithm
from dualmctx.reproduction.matches import make_matches, read_curves
from dualmctx.reproduction.plan import Experiment, choose_algorithms
from dualmctx.reproduction.runs import compile_programs, is_done, open_run, train
from dualmctx.reproduction.summary import Outcome, summarize
from dualmctx.reproduction.training_setup import Row, TrainingSetup, make_setup
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.runs.folder import RunFolder
from dualmctx.runs.metrics_file import read_metrics

ShowFn = Callable[[str, int, int], None]
"""Progress callback: `(task, done, total)`."""
WarnFn = Callable[[str], None]
"""Called with a line about each damaged checkpoint and each incomplete row."""


def run_experiment(experiment: Experiment, show: ShowFn, warn: WarnFn) -> dict[str, Any]:
    """Completes the experiment in a game and summarises it.

    Args:
      experiment: the plan.
      show: called with the progress.
      warn: see `WarnFn`.

    Returns:
      The summary of each comparison, as `summarize` returns it.

    Raises:
      ValueError: if the folder holds another experiment.
    """
    algorithms, setups = _train_chosen(experiment, show, warn)
    if EQUAL in experiment.names and EQUAL not in algorithms:
        _measure_equal_seconds(experiment, algorithms)
        algorithms, setups = _train_chosen(experiment, show, warn)
    for seed in experiment.seeds:
        play_all(experiment, setups, seed, show)
    return read_all(experiment, algorithms, show)


def _train_chosen(
    experiment: Experiment, show: ShowFn, warn: WarnFn
) -> tuple[dict[str, Algorithm], dict[str, TrainingSetup]]:
    row, size = GAMES[experiment.game], experiment.size
    algorithms = choose_algorithms(experiment)
    setups = {name: make_setup(name, x, row, size) for name, x in algorithms.items()}
    train_all(experiment, setups, show, warn)
    return algorithms, setups


def _measure_equal_seconds(experiment: Experiment, algorithms: dict[str, Algorithm]) -> None:
    """Measures, from complete runs, how many simulations of AlphaZero take as long as Dual."""
    rows = {
        name: [row for seed in experiment.seeds for row in _read_run_rows(experiment, name, seed)]
        for name in MEASURED
    }
    measurement = find_equal(algorithms, rows)
    atomic_write_text(experiment.equal_seconds, json.dumps(measurement._asdict()) + "\n")


def train_all(
    experiment: Experiment, setups: dict[str, TrainingSetup], show: ShowFn, warn: WarnFn
) -> None:
    """Trains all algorithms with all seeds.

    Raises:
      ValueError: if a folder holds another run, or a damaged one.
    """
    planned = [
        (setup, seed, experiment.run_folder(setup.name, seed))
        for seed in experiment.seeds
        for setup in setups.values()
    ]
    complete = [x for x in planned if is_done(x[0], x[2])]
    for setup, seed, path in complete:
        # Check its configuration, because its checkpoints may still have matches to play.
        setup.open_folder(seed, path)
    if len(complete) == len(planned):
        return
    # Compilation is a separate task, so that it does not distort the time left of training.
    show(f"{experiment.game}: compiling", 0, 1)
    runs, steps = [open_run(*x, warn) for x in planned], experiment.size.steps
    programs = compile_programs(runs, steps)
    show(f"{experiment.game}: compiling", 1, 1)
    task, done, total = f"{experiment.game}: training", sum(x.step for x in runs), len(runs) * steps
    show(task, done, total)
    for _ in train(runs, programs, steps):
        done += 1
        show(task, done, total)


def play_all(
    experiment: Experiment, setups: dict[str, TrainingSetup], seed: int, show: ShowFn
) -> None:
    """Plays the matches of a seed that have not been played."""
    matches = make_matches(
        GAMES[experiment.game],
        experiment.size,
        seed,
        setups,
        {name: experiment.run_folder(name, seed) for name in setups},
        experiment.chosen.values(),
    )
    file = experiment.match_folder(seed) / GAMES_FILE
    total = 2 * len(matches.pairings) * len(matches.openings)
    done = count_played(matches, read_games(file)) if file.exists() else 0
    task = f"{experiment.game}: games of seed {seed}"
    show(task, done, total)
    for played in play_batches(matches, experiment.match_folder(seed)):
        done += len(played)
        show(task, done, total)


def read_all(
    experiment: Experiment, algorithms: dict[str, Algorithm], show: ShowFn
) -> dict[str, Any]:
    """Reads runs and games and summarises each comparison."""
    rows = {
        name: {seed: _read_run_rows(experiment, name, seed) for seed in experiment.seeds}
        for name in algorithms
    }
    task, total = f"{experiment.game}: ratings", len(experiment.chosen) * len(experiment.seeds)
    summaries, done = {}, 0
    for name, comparison in experiment.chosen.items():
        outcomes: dict[str, dict[int, Outcome]] = {x: {} for x in comparison.algorithms}
        for seed in experiment.seeds:
            show(task, done, total)
            own = {x: rows[x][seed] for x in comparison.algorithms}
            folder, row = experiment.match_folder(seed), GAMES[experiment.game]
            curves = read_curves(folder, row, comparison, experiment.size, own)
            for x, curve in curves.items():
                outcomes[x][seed] = Outcome(own[x], curve)
            done += 1
            show(task, done, total)
        summaries[name] = summarize(experiment.game, comparison, algorithms, outcomes)
    return summaries


def _read_run_rows(experiment: Experiment, name: str, seed: int) -> list[Row]:
    rows = read_metrics(RunFolder(experiment.run_folder(name, seed)).metrics)
    return rows[: experiment.size.steps]
