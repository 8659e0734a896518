"""The report of `python -m benchmarks.paper`: curves of a run, rules of convergence, tables.

The algorithms of a comparison have an order: the reference first, the candidate last.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from dualmctx.matches import Game, count_results
from dualmctx.models.costs import MoveCost
from dualmctx.ratings.alpha_rank import alpha_rank, payoffs
from dualmctx.ratings.elo import rate
from dualmctx.ratings.results import Results
from dualmctx.reports.numbers import NONE, show_number
from dualmctx.reports.table import Table
from dualmctx.runs.atomic_io import atomic_write_text

MASS, CONFIDENCE, NUM_CONSECUTIVE, THRESHOLD = 0.9, 0.95, 3, 0.95
RULES = ("alpha-rank", "authors", "level", "perfect", "threshold")
"""The rules of convergence; `docs/reproduce.md` describes them."""
TABLE_1 = {
    "hsr": {"alphazero": (9.34, 8, 74.72), "mpv": (12.38, 7, 86.66), "dual": (8.37, 8, 66.96)},
    "nim": {"alphazero": (10.71, 7, 74.97), "mpv": (14.67, 6, 88.02), "dual": (9.84, 7, 68.88)},
    "connect-four": {
        "alphazero": (18.71, 13, 243.23),
        "mpv": (24.62, 10, 246.20),
        "dual": (15.32, 12, 183.84),
    },
}
"""Time per step, steps to converge and time to converge, in the paper."""
_NOTE = (
    "docs/reproduce.md describes the algorithms, the rules of convergence and the paper. Times are "
    "seconds of self-play and learning, those of the paper in an unknown unit. Brackets are 95 % "
    "intervals over seeds (Student's t), or the two values if there are two seeds. Ratios are "
    "geometric means over seeds. A number of seeds is given if not all have a value, for example "
    "because they did not meet a rule. Elo is relative to the first algorithm's last checkpoint."
)
Row = dict[str, Any]
"""The metrics of a training step, or a row of a table: cells by the heads of their columns."""


class Curve(NamedTuple):
    """Scores of the checkpoints of an algorithm with one seed, one number per evaluated step.

    Attributes:
      steps: the evaluated steps.
      elo: Elo; `None` if the games do not bound it.
      mass: mass by α-rank among all checkpoints up to the same step, the mean over resamples.
      leads: share of resamples in which this mass exceeds `MASS`.
      score: mean result in [0, 1] against the untrained networks of the comparison.
      level: mean result in [0, 1] against the last checkpoint of the reference; ½ against itself.
      optimal: share of optimal moves of the search, over the positions that optimal play can reach,
        after each step of training; empty in games without an exact solution.
      trained: seconds of training up to the end of each step, from the first step.
    """

    steps: tuple[int, ...]
    elo: tuple[float | None, ...]
    mass: tuple[float, ...]
    leads: tuple[float, ...]
    score: tuple[float, ...]
    level: tuple[float, ...]
    optimal: tuple[float, ...]
    trained: tuple[float, ...]


class Outcome(NamedTuple):
    """An algorithm in a game: the cost of a move, and for each seed the training and a curve."""

    cost: MoveCost
    rows: list[list[Row]]
    curves: list[Curve]


def checkpoint_name(algorithm: str, step: int) -> str:
    """Returns the name of a checkpoint as a player."""
    return f"{algorithm} {step}"


def make_curves(
    played: list[Game], steps: tuple[int, ...], rows: Mapping[str, list[Row]]
) -> dict[str, Curve]:
    """Makes the curves of a comparison with one seed.

    Args:
      played: the games, also those of other comparisons.
      steps: the evaluated steps.
      rows: the rows of training of each algorithm, the reference first.
    """
    own = {x: [checkpoint_name(x, step) for step in steps] for x in rows}
    results = count_results(itertools.chain.from_iterable(own.values()), played)
    reference = next(iter(own.values()))[-1]
    elo = {x.name: x.elo for x in rate(results, anchor=reference).players}
    ranked = []
    for number in range(1, len(steps) + 1):
        so_far = results.select([name for names in own.values() for name in names[:number]])
        ranks = alpha_rank(so_far, threshold=MASS, num_resamples=100)
        found = zip(ranks.mean_mass, ranks.leads, strict=True)
        ranked.append(dict(zip(ranks.players, found, strict=True)))
    curves = {}
    for algorithm, names in own.items():
        mass, leads = zip(*(x[name] for x, name in zip(ranked, names, strict=True)), strict=True)
        optimal = (row.get("path/search_optimal") for row in rows[algorithm])
        curves[algorithm] = Curve(
            steps=steps,
            elo=tuple(elo[name] for name in names),
            mass=mass,
            leads=leads,
            score=_scores(results, names, [others[0] for others in own.values()]),
            level=_scores(results, names, [reference]),
            optimal=tuple(x for x in optimal if x is not None),
            trained=tuple(row["seconds"] for row in rows[algorithm]),
        )
    return curves


def _scores(results: Results, own: list[str], others: list[str]) -> tuple[float, ...]:
    """Returns the mean result in [0, 1] of each checkpoint against `others`; ½ against itself."""
    table = (payoffs(results.pairs) + 1) / 2
    columns = [results.players.index(x) for x in others]
    return tuple(float(np.mean(table[results.players.index(x), columns])) for x in own)


def first_in_a_row(flags: Sequence[bool], number: int, *, or_to_the_end: bool) -> int | None:
    """Returns the index of the first of `number` true flags in a row, or `None`.

    With `or_to_the_end`, fewer flags are enough at the end of the sequence.
    """
    last = len(flags) if or_to_the_end else len(flags) - number + 1
    return next((i for i in range(last) if all(flags[i : i + number])), None)


def authors_score(score: float) -> float:
    """Computes the α-rank of the script of the paper's authors, from a score w in [0, 1].

    Formula: σ(4.9 (2w − 1))², which is above 0.9 if w is above 0.7977.
    """
    return 1 / (1 + math.exp(-4.9 * (2 * score - 1))) ** 2


def converged(curve: Curve, rule: str) -> tuple[float, float] | None:
    """Returns the step and the seconds at which an algorithm has converged, or `None`.

    If a rule asks for several evaluations in a row, the point is the first of them. Only
    evaluations after step 0 count, because networks are untrained before.
    """
    if rule == "threshold":
        return _cross(curve)
    steps, flags = {
        "alpha-rank": (curve.steps, [x >= CONFIDENCE for x in curve.leads]),
        "authors": (curve.steps, [authors_score(x) > MASS for x in curve.score]),
        "level": (curve.steps, [x >= 0.5 for x in curve.level]),
        "perfect": (range(1, len(curve.optimal) + 1), [x == 1 for x in curve.optimal]),
    }[rule]
    after = [flag and step > 0 for flag, step in zip(flags, steps, strict=True)]
    number = 1 if rule == "authors" else NUM_CONSECUTIVE
    index = first_in_a_row(after, number, or_to_the_end=rule == "level")
    return None if index is None else (steps[index], curve.trained[steps[index] - 1])


def _cross(curve: Curve) -> tuple[float, float] | None:
    """Returns the step, interpolated, and the seconds at which `optimal` reaches `THRESHOLD`.

    The share of the untrained network is not recorded, so an algorithm that reaches the threshold
    during the first step does so at step 1.
    """
    after = next((i for i, x in enumerate(curve.optimal) if x >= THRESHOLD), None)
    if not after:
        return None if after is None else (1, curve.trained[0])
    below, above = curve.optimal[after - 1 : after + 1]
    share = (THRESHOLD - below) / (above - below)
    begin, end = curve.trained[after - 1 : after + 1]
    return (after + share, begin + share * (end - begin))


def show_mean(found: Sequence[float | None], *, is_ratio: bool = False) -> str:
    """Formats a mean over seeds, with a 95 % interval from three seeds on.

    Args:
      found: the value of each seed, `None` if it has none.
      is_ratio: whether to take the geometric mean, and the interval over logarithms.
    """
    values = np.array([x for x in found if x is not None])
    if not len(values):
        return NONE
    scaled = np.log(values) if is_ratio else values
    # Equal values do not show how much values vary.
    ends = () if np.allclose(scaled, scaled[0], rtol=1e-9) else (scaled.min(), scaled.max())
    if ends and len(values) > 2:
        error = scipy.stats.sem(scaled)
        ends = scipy.stats.t.interval(0.95, len(values) - 1, scaled.mean(), error)
    mean, *shown = (
        show_number(math.exp(x) if is_ratio else float(x)) for x in (scaled.mean(), *ends)
    )
    part = "" if len(values) == len(found) else f" ({len(values)} of {len(found)} seeds)"
    return f"{mean} [{', '.join(shown)}]{part}" if shown else f"{mean}{part}"


def costs_of(outcome: Outcome, published: tuple[float, ...] | None) -> dict[str, list[Any]]:
    """Returns the costs of an algorithm: for each quantity, the value of each seed."""

    def seconds(*parts: str) -> list[float]:
        return [
            float(np.mean([sum(row[x] for x in parts) for row in rows])) for rows in outcome.rows
        ]

    names = ("time per step, paper", "steps to converge, paper", "time to converge, paper")
    points = {rule: [converged(x, rule) for x in outcome.curves] for rule in RULES}
    return {
        "simulations per move": [outcome.cost.simulations],
        "blocks per move": [outcome.cost.blocks],
        "time per step": seconds("selfplay_seconds", "learn_seconds"),
        "time of self-play": seconds("selfplay_seconds"),
        "time of learning": seconds("learn_seconds"),
        **{f"steps to converge, {x}": [y and y[0] for y in points[x]] for x in RULES},
        **{f"time to converge, {x}": [y and y[1] for y in points[x]] for x in RULES},
        **({name: [x] for name, x in zip(names, published, strict=True)} if published else {}),
    }


_STRENGTH = {
    "Elo": "elo",
    "points against the last checkpoint of the first algorithm": "level",
    "points against untrained networks": "score",
    "optimal moves": "optimal",
}


def strength_of(outcome: Outcome) -> dict[str, list[Any]]:
    """Returns the strength of the last checkpoint: for each quantity, the value of each seed."""
    return {
        name: [getattr(x, part)[-1] if getattr(x, part) else None for x in outcome.curves]
        for name, part in _STRENGTH.items()
    }


def make_tables(outcomes: Mapping[str, Outcome], game: str) -> list[Table]:
    """Returns the tables of a comparison; `game` is one of `TABLE_1`."""
    *others, candidate = outcomes
    published = TABLE_1[game] if candidate in TABLE_1[game] else {}
    costs = {name: costs_of(x, published.get(name)) for name, x in outcomes.items()}
    means = {name: costs[name] | strength_of(x) for name, x in outcomes.items()}

    def show_ratio(quantity: str, other: str) -> str:
        """Formats the ratio over the seeds in which both algorithms have a value."""
        pairs = zip(costs[candidate][quantity], costs[other][quantity], strict=True)
        return show_mean([x / y if x and y else None for x, y in pairs], is_ratio=True)

    def show_strength(outcome: Outcome, index: int) -> str:
        parts = ([getattr(x, part)[index] for x in outcome.curves] for part in ("elo", "mass"))
        return "; ".join(map(show_mean, parts))

    return [
        Table(
            "Means over seeds; strength is that of the last checkpoints",
            ("quantity", *means),
            [(x, *(show_mean(found[x]) for found in means.values())) for x in means[candidate]],
        ),
        Table(
            "Ratios",
            ("quantity", *(f"{candidate} / {other}" for other in others)),
            [(x, *(show_ratio(x, other) for other in others)) for x in costs[candidate]],
        ),
        Table(
            "Elo; mass by α-rank; means over seeds",
            ("step", *outcomes),
            [
                (str(step), *(show_strength(x, i) for x in outcomes.values()))
                for i, step in enumerate(outcomes[candidate].curves[0].steps)
            ],
        ),
    ]


def write_report(
    file: Path,
    game: str,
    preamble: str,
    sections: Mapping[str, Mapping[str, Outcome]],
) -> None:
    """Writes the report of a game as Markdown.

    Args:
      file: the file to write.
      game: a game of `TABLE_1`.
      preamble: the first paragraph.
      sections: the outcomes of each comparison, by its name.
    """
    parts = [f"# The experiments of the Dual MCTS paper: {game}", preamble, _NOTE]
    for title, outcomes in sections.items():
        parts.append(f"## {title}")
        parts += [table.to_markdown() for table in make_tables(outcomes, game)]
    atomic_write_text(file, "\n\n".join(parts) + "\n")
