"""The stages of an experiment: training, matches, ratings; each goes on where it was stopped."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import games
from dualmctx.matches.game_file import read_games
from dualmctx.matches.tournament import count_played, play_tournament
from dualmctx.matches.tournament_folder import GAMES as GAMES_FILE
from dualmctx.reproduction.equal_seconds import (
    EQUAL,
    MEASURED,
    EqualSeconds,
    find_equal,
)
from dualmctx.reproduction.experiments import (
    COMPARISONS,
    GAMES,
    Algorithm,
    Comparison,
    Size,
    alphazero,
    make_algorithms,
)
from dualmctx.reproduction.matches import make_matches, make_openings, read_curves
from dualmctx.reproduction.runs import compile_programs, is_done, open_run, train
from dualmctx.reproduction.steps import Learning, Row, make_config, make_learning
from dualmctx.reproduction.summary import Outcome, summarize
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.runs.folder import read_rows, reopen_run

ShowFn = Callable[[str, int, int], None]
"""Is told what is being done, and how much of it is done, of how much."""


class Experiment(NamedTuple):
    """What is to be done in a game.

    Attributes:
      game: of the paper.
      size: how large it is.
      seeds: of the runs.
      comparisons: by their names in `COMPARISONS`.
      folder: of this game.
    """

    game: str
    size: Size
    seeds: tuple[int, ...]
    comparisons: tuple[str, ...]
    folder: Path

    @property
    def chosen(self) -> dict[str, Comparison]:
        """The comparisons."""
        return {name: COMPARISONS[name] for name in self.comparisons}

    @property
    def names(self) -> set[str]:
        """The algorithms of all comparisons."""
        return {name for x in self.chosen.values() for name in x.algorithms}

    @property
    def equal_seconds(self) -> Path:
        """The file of what was measured for equal seconds."""
        return self.folder / "equal-seconds.json"

    def run_folder(self, algorithm: str, seed: int) -> Path:
        """Returns the folder of a run."""
        return self.folder / algorithm / f"seed-{seed}"

    def match_folder(self, seed: int) -> Path:
        """Returns the folder of the matches of a seed."""
        return self.folder / "matches" / f"seed-{seed}"


def run_experiment(experiment: Experiment, show: ShowFn) -> dict[str, Any]:
    """Does what is still to be done in a game, and summarises it.

    Args:
      experiment: what.
      show: is told how far it is.

    Returns:
      What `summarize` returns for each comparison.

    Raises:
      ValueError: when the folder holds something else, in one line.
    """
    algorithms, learnings = _train_chosen(experiment, show)
    if EQUAL in experiment.names and EQUAL not in algorithms:
        _find_seconds(experiment, algorithms)
        algorithms, learnings = _train_chosen(experiment, show)
    for seed in experiment.seeds:
        play_all(experiment, learnings, seed, show)
    return read_all(experiment, algorithms, show)


def _train_chosen(
    experiment: Experiment, show: ShowFn
) -> tuple[dict[str, Algorithm], dict[str, Learning]]:
    row, size = GAMES[experiment.game], experiment.size
    algorithms = choose_algorithms(experiment)
    learnings = {name: make_learning(name, x, row, size) for name, x in algorithms.items()}
    train_all(experiment, learnings, show)
    return algorithms, learnings


def check_experiment(experiment: Experiment) -> None:
    """Checks what can be checked before anything is written or compiled for long.

    Raises:
      ValueError: when sizes do not fit the game, in one line.
    """
    row, size = GAMES[experiment.game], experiment.size
    for algorithm in make_algorithms(row, size).values():
        make_config(algorithm, row, size)
    make_openings(games.make(row.game), row, size, seed=experiment.seeds[0])


def choose_algorithms(experiment: Experiment) -> dict[str, Algorithm]:
    """Makes the algorithms that the comparisons need.

    As long as nobody has measured how many simulations take as long as Dual, those are there that
    this is measured with.
    """
    made, wanted = make_algorithms(GAMES[experiment.game], experiment.size), experiment.names
    if EQUAL in wanted and experiment.equal_seconds.exists():
        simulations = _read_seconds(experiment.equal_seconds).simulations
        made[EQUAL] = alphazero(simulations, experiment.size)
    elif EQUAL in wanted:
        wanted = wanted - {EQUAL} | set(MEASURED)
    return {name: x for name, x in made.items() if name in wanted}


def _find_seconds(experiment: Experiment, algorithms: dict[str, Algorithm]) -> None:
    """Measures once, by complete runs, how many simulations take as long as Dual."""
    rows = {
        name: [row for seed in experiment.seeds for row in _rows(experiment, name, seed)]
        for name in MEASURED
    }
    found = find_equal(algorithms, rows)
    atomic_write_text(experiment.equal_seconds, json.dumps(found._asdict()) + "\n")


def _read_seconds(file: Path) -> EqualSeconds:
    try:
        return EqualSeconds(**json.loads(file.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file} cannot be read ({error}); remove it to measure anew") from error


def train_all(experiment: Experiment, learnings: dict[str, Learning], show: ShowFn) -> None:
    """Trains all algorithms with all seeds.

    Raises:
      ValueError: when a folder holds another run, in one line.
    """
    wanted = [
        (x, seed, experiment.run_folder(x.name, seed))
        for seed in experiment.seeds
        for x in learnings.values()
    ]
    complete = [x for x in wanted if is_done(x[0], x[2])]
    for learning, seed, path in complete:
        # Its matches may be played yet, by the search of today's code.
        reopen_run(path, learning.record(seed))
    if len(complete) == len(wanted):
        return
    # By itself, as it says nothing of the pace of what follows.
    show(f"{experiment.game}: compiling", 0, 1)
    runs, steps = [open_run(*x) for x in wanted], experiment.size.steps
    programs = compile_programs(runs, steps)
    show(f"{experiment.game}: compiling", 1, 1)
    what, done, total = f"{experiment.game}: training", sum(x.step for x in runs), len(runs) * steps
    show(what, done, total)
    for _ in train(runs, programs, steps):
        done += 1
        show(what, done, total)


def play_all(
    experiment: Experiment, learnings: dict[str, Learning], seed: int, show: ShowFn
) -> None:
    """Plays the matches of a seed that have not been played."""
    folders = {name: experiment.run_folder(name, seed) for name in learnings}
    matches = make_matches(
        GAMES[experiment.game],
        experiment.size,
        seed,
        learnings,
        folders,
        experiment.chosen.values(),
    )
    file = experiment.match_folder(seed) / GAMES_FILE
    total = 2 * len(matches.pairings) * len(matches.openings)
    done = count_played(matches, read_games(file)) if file.exists() else 0
    what = f"{experiment.game}: games of seed {seed}"
    show(what, done, total)
    for fresh in play_tournament(matches, experiment.match_folder(seed)):
        done += len(fresh)
        show(what, done, total)


def read_all(
    experiment: Experiment, algorithms: dict[str, Algorithm], show: ShowFn
) -> dict[str, Any]:
    """Reads off runs and games what they say."""
    rows = {
        name: {seed: _rows(experiment, name, seed) for seed in experiment.seeds}
        for name in algorithms
    }
    what, total = f"{experiment.game}: ratings", len(experiment.chosen) * len(experiment.seeds)
    summaries, done = {}, 0
    for name, comparison in experiment.chosen.items():
        outcomes: dict[str, dict[int, Outcome]] = {x: {} for x in comparison.algorithms}
        for seed in experiment.seeds:
            show(what, done, total)
            own = {x: rows[x][seed] for x in comparison.algorithms}
            folder, row = experiment.match_folder(seed), GAMES[experiment.game]
            curves = read_curves(folder, row, comparison, experiment.size, own)
            for x, curve in curves.items():
                outcomes[x][seed] = Outcome(own[x], curve)
            done += 1
            show(what, done, total)
        summaries[name] = summarize(experiment.game, comparison, algorithms, outcomes)
    return summaries


def _rows(experiment: Experiment, name: str, seed: int) -> list[Row]:
    return read_rows(experiment.run_folder(name, seed) / "metrics.jsonl")[: experiment.size.steps]
