"""The plan of an experiment: the game, its runs and folders, and its checks."""

import json
from pathlib import Path
from typing import NamedTuple

import games
from dualmctx.errors import UserError
from dualmctx.reproduction.equal_seconds import EQUAL, MEASURED, EqualSeconds
from dualmctx.reproduction.experiments import (
    COMPARISONS,
    GAMES,
    Algorithm,
    Comparison,
    alphazero,
    make_algorithms,
)
from dualmctx.reproduction.matches import make_openings
from dualmctx.reproduction.size import Size
from dualmctx.reproduction.training_setup import make_config


class Experiment(NamedTuple):
    """The experiment in one game.

    Attributes:
      game: the name of a game of the paper.
      size: the size of the experiment.
      seeds: the seeds of the runs.
      comparisons: names in `COMPARISONS`.
      folder: the folder of this game.
    """

    game: str
    size: Size
    seeds: tuple[int, ...]
    comparisons: tuple[str, ...]
    folder: Path

    @property
    def chosen(self) -> dict[str, Comparison]:
        """The comparisons, by name."""
        return {name: COMPARISONS[name] for name in self.comparisons}

    @property
    def names(self) -> set[str]:
        """The algorithms of all comparisons."""
        return {name for x in self.chosen.values() for name in x.algorithms}

    @property
    def equal_seconds(self) -> Path:
        """The file with the measurement of equal seconds."""
        return self.folder / "equal-seconds.json"

    def run_folder(self, algorithm: str, seed: int) -> Path:
        """Returns the folder of a run."""
        return self.folder / algorithm / f"seed-{seed}"

    def match_folder(self, seed: int) -> Path:
        """Returns the folder of the matches of a seed."""
        return self.folder / "matches" / f"seed-{seed}"


def check_experiment(experiment: Experiment) -> None:
    """Checks an experiment before anything is written or compiled.

    Raises:
      ValueError: if the size does not fit the game.
    """
    row, size = GAMES[experiment.game], experiment.size
    for algorithm in make_algorithms(row, size).values():
        make_config(algorithm, row, size)
    make_openings(games.make(row.game), row, size, seed=experiment.seeds[0])


def choose_algorithms(experiment: Experiment) -> dict[str, Algorithm]:
    """Returns the algorithms that the comparisons need, by name.

    The budget of `alphazero-seconds` is measured. Before the measurement, the result has the
    algorithms that are timed for it instead.

    Raises:
      ValueError: if the file of the measurement cannot be read.
    """
    algorithms = make_algorithms(GAMES[experiment.game], experiment.size)
    names = experiment.names
    if EQUAL in names and experiment.equal_seconds.exists():
        simulations = _read_seconds(experiment.equal_seconds).simulations
        algorithms[EQUAL] = alphazero(simulations, experiment.size)
    elif EQUAL in names:
        names = names - {EQUAL} | set(MEASURED)
    return {name: x for name, x in algorithms.items() if name in names}


def _read_seconds(file: Path) -> EqualSeconds:
    try:
        return EqualSeconds(**json.loads(file.read_text()))
    except (ValueError, TypeError) as error:
        raise UserError(f"{file} cannot be read ({error}); remove it to measure again") from error
