"""Checkpoints of all algorithms play each other; what the games say of each, step by step."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dualmctx.matches.entrants import Entrant, engine
from dualmctx.matches.game_file import read_games, results_of
from dualmctx.matches.openings import random_openings
from dualmctx.matches.tournament import Tournament
from dualmctx.matches.tournament_folder import GAMES
from dualmctx.ratings.alpha_rank import alpha_rank, payoffs
from dualmctx.ratings.elo import rate
from dualmctx.ratings.results import Results
from dualmctx.reproduction.convergence import Evaluated
from dualmctx.reproduction.experiments import Comparison, GameRow, Size
from dualmctx.reproduction.runs import load_step
from dualmctx.reproduction.steps import Learning, Row


class Curve(NamedTuple):
    """An algorithm's checkpoints among all of a comparison, a number for each step evaluated.

    Attributes:
      elo: relative to the mean of those comparable; `None` where the games do not bound it.
      low: lower end of the interval of 95 %, likewise.
      high: upper end.
      mass: of α-rank among all checkpoints up to the same step.
      found: what the rules of convergence read.
    """

    elo: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    mass: tuple[float, ...]
    found: Evaluated


def checkpoint_name(algorithm: str, step: int) -> str:
    """Returns the name under which a checkpoint plays."""
    return f"{algorithm} {step}"


def make_matches(
    row: GameRow,
    size: Size,
    seed: int,
    learnings: Mapping[str, Learning],
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
      learnings: by the names of algorithms.
      folders: of their runs with this seed.
      comparisons: who is compared with whom.
    """
    chosen = list(comparisons)
    names = sorted({name for x in chosen for name in x.algorithms})
    players = [(name, step) for name in names for step in size.evaluated]
    env = learnings[names[0]].env
    openings = [()]
    if size.openings > 1:
        plies = row.opening_plies
        openings += random_openings(env, size.openings - 1, plies=plies, seed=seed)
    return Tournament(
        env,
        tuple(_entrant(env, learnings[name], folders[name], step) for name, step in players),
        pair_up([name for name, _ in players], chosen),
        tuple(openings),
        seed=seed,
        batch_size=size.openings,
        about={"seed": seed},
    )


def pair_up(names: Sequence[str], comparisons: Iterable[Comparison]) -> tuple[tuple[int, int], ...]:
    """Pairs up checkpoints, given the algorithm of each: any two that are in one comparison."""
    groups = [set(x.algorithms) for x in comparisons]
    return tuple(
        (i, j)
        for (i, one), (j, other) in itertools.combinations(enumerate(names), 2)
        if any({one, other} <= group for group in groups)
    )


def _entrant(env: object, learning: Learning, folder: Path, step: int) -> Entrant:
    return engine(
        checkpoint_name(learning.name, step),
        env,
        learning.network,
        load_step(folder, step).params,
        learning.config.search.noiseless(),
        about={"algorithm": learning.name, "step": step},
        **learning.options,
    )


def read_curves(
    folder: Path, comparison: Comparison, size: Size, rows: Mapping[str, list[Row]]
) -> dict[str, Curve]:
    """Reads off the games of one seed how good each checkpoint of a comparison was.

    Args:
      folder: of the tournament.
      comparison: whose algorithms.
      size: of the experiment.
      rows: of the algorithms' runs.

    Returns:
      A curve for each algorithm.
    """
    steps, games = size.evaluated, read_games(folder / GAMES)
    names = [checkpoint_name(x, step) for x in comparison.algorithms for step in steps]
    results = results_of(names, games)
    ratings = {x.name: x for x in rate(results, num_resamples=size.resamples).players}
    ranked = [_rank_until(results, comparison, steps[: i + 1], size) for i in range(len(steps))]
    reference = comparison.others[0]
    curves = {}
    for name in comparison.algorithms:
        own = [checkpoint_name(name, step) for step in steps]
        found = Evaluated(
            steps=steps,
            seconds=tuple(sum(x["seconds"] for x in rows[name][:step]) for step in steps),
            leads=tuple(found[x][1] for found, x in zip(ranked, own, strict=True)),
            score=_scores(
                results, own, [checkpoint_name(x, steps[0]) for x in comparison.algorithms]
            ),
            level=_scores(results, own, [checkpoint_name(reference, steps[-1])]),
            optimal=_optimal(rows[name], steps),
        )
        curves[name] = Curve(
            *(tuple(getattr(ratings[x], part) for x in own) for part in ("elo", "low", "high")),
            mass=tuple(found[x][0] for found, x in zip(ranked, own, strict=True)),
            found=found,
        )
    return curves


def _rank_until(
    results: Results, comparison: Comparison, steps: tuple[int, ...], size: Size
) -> dict[str, tuple[float, float]]:
    """Returns of all checkpoints so far the mean mass, and the share of resamples that it leads."""
    names = [checkpoint_name(x, step) for x in comparison.algorithms for step in steps]
    found = alpha_rank(results.select(names), num_resamples=size.resamples)
    return dict(zip(names, zip(found.mean_mass, found.leads, strict=True), strict=True))


def _scores(results: Results, own: list[str], others: list[str]) -> tuple[float, ...]:
    """Returns the mean result in [0, 1] of each checkpoint against others, itself a draw."""
    table = (payoffs(results.pairs) + 1) / 2
    columns = [results.players.index(x) for x in others]
    return tuple(float(np.mean(table[results.players.index(x), columns])) for x in own)


def _optimal(rows: list[Row], steps: tuple[int, ...]) -> tuple[float, ...]:
    """Returns the share of optimal moves after each step; nothing is known of untrained ones."""
    name = "path/search_optimal"
    if not rows or name not in rows[0]:
        return ()
    return tuple(rows[step - 1][name] if step else 0.0 for step in steps)
