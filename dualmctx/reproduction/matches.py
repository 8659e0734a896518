"""Matches between the checkpoints of all algorithms, and the curves computed from their games."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import games
from dualmctx.matches.game_file import count_results, read_games
from dualmctx.matches.openings import Opening, random_openings
from dualmctx.matches.players import Player, search_player
from dualmctx.matches.tournament import Tournament
from dualmctx.matches.tournament_folder import GAMES
from dualmctx.ratings.alpha_rank import alpha_rank, payoffs
from dualmctx.ratings.elo import Rating, rate, rate_sides
from dualmctx.ratings.results import Results
from dualmctx.reproduction.convergence import MASS, CheckpointScores
from dualmctx.reproduction.experiments import Comparison, GameRow
from dualmctx.reproduction.runs import load_step
from dualmctx.reproduction.size import Size
from dualmctx.reproduction.training_setup import Row, TrainingSetup
from dualmctx.types import Environment

# The metric for the share of optimal moves in positions that optimal play can reach.
_OPTIMAL = "path/search_optimal"


class Curve(NamedTuple):
    """Curves of the checkpoints of an algorithm, one number per evaluated step.

    Attributes:
      elo: relative to the last checkpoint of the reference; `None` if the games do not bound it.
      low: lower end of the 95 % interval of Elo; `None` if the games do not bound it.
      high: upper end of the interval; `None` if the games do not bound it.
      first: Elo on the first side, relative to the last checkpoint of the reference on that side;
        empty if both sides have the same task.
      second: Elo on the second side, relative to the same checkpoint on the first side.
      mass: mass by α-rank among all checkpoints up to the same step, the mean over resamples.
      found: the scores that the rules of convergence use.
    """

    elo: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    first: tuple[float | None, ...]
    second: tuple[float | None, ...]
    mass: tuple[float, ...]
    found: CheckpointScores


def checkpoint_name(algorithm: str, step: int) -> str:
    """Returns the name of a checkpoint as a player."""
    return f"{algorithm} {step}"


def make_matches(
    row: GameRow,
    size: Size,
    seed: int,
    setups: Mapping[str, TrainingSetup],
    folders: Mapping[str, Path],
    comparisons: Iterable[Comparison],
) -> Tournament:
    """Returns the tournament of all checkpoints of one seed.

    Each checkpoint plays with its own search, without noise. Two checkpoints meet if their
    algorithms are in the same comparison; they meet once even if several comparisons have both.

    Args:
      row: the game.
      size: the size of the experiment.
      seed: the seed of the runs and of the openings.
      setups: the training setups, by algorithm.
      folders: the folders of their runs with this seed, by algorithm.
      comparisons: the comparisons.
    """
    chosen = list(comparisons)
    names = sorted({name for x in chosen for name in x.algorithms})
    players = [(name, step) for name in names for step in size.evaluated]
    env = setups[names[0]].env
    return Tournament(
        env,
        tuple(_make_player(env, setups[name], folders[name], step) for name, step in players),
        make_openings(env, row, size, seed),
        pair_up([name for name, _ in players], chosen),
        seed=seed,
        batch_size=size.openings,
        about={"seed": seed},
    )


def make_openings(env: Environment, row: GameRow, size: Size, seed: int) -> tuple[Opening, ...]:
    """Returns the openings of matches: the start of the game and random openings.

    Raises:
      ValueError: if the game does not have `size.openings` openings.
    """
    if size.openings == 1:
        return ((),)
    openings = random_openings(env, size.openings - 1, plies=row.opening_plies, seed=seed)
    return ((), *openings)


def pair_up(names: Sequence[str], comparisons: Iterable[Comparison]) -> tuple[tuple[int, int], ...]:
    """Returns the pairs of checkpoints whose algorithms are in the same comparison.

    Args:
      names: the algorithm of each checkpoint.
      comparisons: the comparisons.
    """
    groups = [set(x.algorithms) for x in comparisons]
    return tuple(
        (i, j)
        for (i, one), (j, other) in itertools.combinations(enumerate(names), 2)
        if any({one, other} <= group for group in groups)
    )


def _make_player(env: Environment, setup: TrainingSetup, folder: Path, step: int) -> Player:
    return search_player(
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
    """Reads the curves of the algorithms of a comparison from the games of one seed.

    The reference is the last checkpoint of the first algorithm of the comparison.

    Args:
      folder: the folder of the tournament.
      row: the game.
      comparison: the comparison.
      size: the size of the experiment.
      rows: the rows of the runs, by algorithm.

    Returns:
      The curves by algorithm.
    """
    steps, played = size.evaluated, read_games(folder / GAMES)
    results = count_results(
        [checkpoint_name(x, step) for x in comparison.algorithms for step in steps], played
    )
    reference = checkpoint_name(comparison.others[0], steps[-1])
    untrained = [checkpoint_name(x, steps[0]) for x in comparison.algorithms]
    has_asymmetric_roles = games.has_asymmetric_roles(games.make(row.game))
    ratings = _rate(results, reference, by_side=has_asymmetric_roles)
    ranked = [_rank_until(results, comparison, steps[: i + 1], size) for i in range(len(steps))]
    curves = {}
    for name in comparison.algorithms:
        own = [checkpoint_name(name, step) for step in steps]
        scores = CheckpointScores(
            steps=steps,
            leads=tuple(ranks[x][1] for ranks, x in zip(ranked, own, strict=True)),
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
            mass=tuple(ranks[x][0] for ranks, x in zip(ranked, own, strict=True)),
            found=scores,
        )
    return curves


def _rate(results: Results, reference: str, *, by_side: bool) -> dict[str, Rating]:
    """Returns the ratings of all checkpoints by name, and by name and side if `by_side`."""
    ratings = rate(results, anchor=reference).players
    if by_side:
        anchor = f"{reference} (first)"
        ratings += rate_sides(results, anchor=anchor).players
    return {x.name: x for x in ratings}


def _rank_until(
    results: Results, comparison: Comparison, steps: tuple[int, ...], size: Size
) -> dict[str, tuple[float, float]]:
    """Returns, for each checkpoint so far, the mean mass and the share of resamples it leads."""
    names = [checkpoint_name(x, step) for x in comparison.algorithms for step in steps]
    ranks = alpha_rank(results.select(names), threshold=MASS, num_resamples=size.resamples)
    return dict(zip(names, zip(ranks.mean_mass, ranks.leads, strict=True), strict=True))


def _scores(results: Results, own: list[str], others: list[str]) -> tuple[float, ...]:
    """Returns the mean result in [0, 1] of each checkpoint against `others`; ½ against itself."""
    table = (payoffs(results.pairs) + 1) / 2
    columns = [results.players.index(x) for x in others]
    return tuple(float(np.mean(table[results.players.index(x), columns])) for x in own)
