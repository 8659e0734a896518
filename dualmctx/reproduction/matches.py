"""Checkpoints of all algorithms play each other; what the games say of each, step by step."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import games
from dualmctx.matches.game_file import read_games, results_of
from dualmctx.matches.openings import Opening, random_openings
from dualmctx.matches.players import Entrant, engine
from dualmctx.matches.tournament import Tournament
from dualmctx.matches.tournament_folder import GAMES
from dualmctx.ratings.alpha_rank import alpha_rank, payoffs
from dualmctx.ratings.elo import Rating, rate, rate_sides
from dualmctx.ratings.results import Results
from dualmctx.reproduction.convergence import MASS, Evaluated
from dualmctx.reproduction.experiments import Comparison, GameRow
from dualmctx.reproduction.runs import load_step
from dualmctx.reproduction.size import Size
from dualmctx.reproduction.training_setup import Row, TrainingSetup
from dualmctx.types import Environment

# Of a run's rows: what its search does wherever optimal play can lead.
_OPTIMAL = "path/search_optimal"


class Curve(NamedTuple):
    """An algorithm's checkpoints among all of a comparison, a number for each step evaluated.

    Attributes:
      elo: relative to the reference's last checkpoint; `None` where the games do not bound it.
      low: lower end of the interval of 95 %, likewise.
      high: upper end.
      first: Elo on the first side, relative to the reference's last checkpoint there; empty where
        both sides have the same task.
      second: Elo on the second side, relative to the same.
      mass: of α-rank among all checkpoints up to the same step, the mean over the resamples.
      found: what the rules of convergence read.
    """

    elo: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    first: tuple[float | None, ...]
    second: tuple[float | None, ...]
    mass: tuple[float, ...]
    found: Evaluated


def checkpoint_name(algorithm: str, step: int) -> str:
    """Returns the name under which a checkpoint plays."""
    return f"{algorithm} {step}"


def make_matches(
    row: GameRow,
    size: Size,
    seed: int,
    setups: Mapping[str, TrainingSetup],
    folders: Mapping[str, Path],
    comparisons: Iterable[Comparison],
) -> Tournament:
    """Makes the tournament of all checkpoints of one seed; each plays by its own search, no noise.

    Any two meet that are in the same comparison. Games of algorithms that are in several are played
    once.

    Args:
      row: the game.
      size: of the experiment.
      seed: of the runs, and of the openings.
      setups: by the names of algorithms.
      folders: of their runs with this seed.
      comparisons: who is compared with whom.
    """
    chosen = list(comparisons)
    names = sorted({name for x in chosen for name in x.algorithms})
    players = [(name, step) for name in names for step in size.evaluated]
    env = setups[names[0]].env
    return Tournament(
        env,
        tuple(_entrant(env, setups[name], folders[name], step) for name, step in players),
        pair_up([name for name, _ in players], chosen),
        make_openings(env, row, size, seed),
        seed=seed,
        batch_size=size.openings,
        about={"seed": seed},
    )


def make_openings(env: Environment, row: GameRow, size: Size, seed: int) -> tuple[Opening, ...]:
    """Makes the openings of matches: the start of the game and random ones.

    Raises:
      ValueError: when the game has not that many, in one line.
    """
    if size.openings == 1:
        return ((),)
    found = random_openings(env, size.openings - 1, plies=row.opening_plies, seed=seed)
    return ((), *found)


def pair_up(names: Sequence[str], comparisons: Iterable[Comparison]) -> tuple[tuple[int, int], ...]:
    """Pairs up checkpoints, given the algorithm of each: any two that are in one comparison."""
    groups = [set(x.algorithms) for x in comparisons]
    return tuple(
        (i, j)
        for (i, one), (j, other) in itertools.combinations(enumerate(names), 2)
        if any({one, other} <= group for group in groups)
    )


def _entrant(env: Environment, setup: TrainingSetup, folder: Path, step: int) -> Entrant:
    return engine(
        checkpoint_name(setup.name, step),
        env,
        setup.network,
        load_step(folder, step).params,
        setup.config.search.for_evaluation(),
        about={"algorithm": setup.name, "step": step},
        **setup.model_options,
    )


def read_curves(
    folder: Path, row: GameRow, comparison: Comparison, size: Size, rows: Mapping[str, list[Row]]
) -> dict[str, Curve]:
    """Reads off the games of one seed how good each checkpoint of a comparison was.

    The reference is the last checkpoint of the comparison's first algorithm.

    Args:
      folder: of the tournament.
      row: the game.
      comparison: whose algorithms.
      size: of the experiment.
      rows: of the algorithms' runs.

    Returns:
      A curve for each algorithm.
    """
    steps, played = size.evaluated, read_games(folder / GAMES)
    results = results_of(
        [checkpoint_name(x, step) for x in comparison.algorithms for step in steps], played
    )
    reference = checkpoint_name(comparison.others[0], steps[-1])
    untrained = [checkpoint_name(x, steps[0]) for x in comparison.algorithms]
    has_asymmetric_roles = games.has_asymmetric_roles(games.make(row.game))
    ratings = _ratings(results, reference, by_side=has_asymmetric_roles)
    ranked = [_rank_until(results, comparison, steps[: i + 1], size) for i in range(len(steps))]
    curves = {}
    for name in comparison.algorithms:
        own = [checkpoint_name(name, step) for step in steps]
        found = Evaluated(
            steps=steps,
            leads=tuple(found[x][1] for found, x in zip(ranked, own, strict=True)),
            score=_scores(results, own, untrained),
            level=_scores(results, own, [reference]),
            optimal=tuple(x[_OPTIMAL] for x in rows[name] if _OPTIMAL in x),
            trained=tuple(itertools.accumulate(x["seconds"] for x in rows[name])),
        )
        curves[name] = Curve(
            *(tuple(getattr(ratings[x], part) for x in own) for part in ("elo", "low", "high")),
            *(
                tuple(ratings[f"{x} ({side})"].elo for x in own if has_asymmetric_roles)
                for side in ("first", "second")
            ),
            mass=tuple(found[x][0] for found, x in zip(ranked, own, strict=True)),
            found=found,
        )
    return curves


def _ratings(results: Results, reference: str, *, by_side: bool) -> dict[str, Rating]:
    """Rates all checkpoints by name, and by side each on either side too."""
    found = rate(results, anchor=reference).players
    if by_side:
        anchor = f"{reference} (first)"
        found += rate_sides(results, anchor=anchor).players
    return {x.name: x for x in found}


def _rank_until(
    results: Results, comparison: Comparison, steps: tuple[int, ...], size: Size
) -> dict[str, tuple[float, float]]:
    """Returns of all checkpoints so far the mean mass, and the share of resamples that it leads."""
    names = [checkpoint_name(x, step) for x in comparison.algorithms for step in steps]
    found = alpha_rank(results.select(names), threshold=MASS, num_resamples=size.resamples)
    return dict(zip(names, zip(found.mean_mass, found.leads, strict=True), strict=True))


def _scores(results: Results, own: list[str], others: list[str]) -> tuple[float, ...]:
    """Returns the mean result in [0, 1] of each checkpoint against others, itself a draw."""
    table = (payoffs(results.pairs) + 1) / 2
    columns = [results.players.index(x) for x in others]
    return tuple(float(np.mean(table[results.players.index(x), columns])) for x in own)
