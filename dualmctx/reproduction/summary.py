"""What the runs and their games say together: means over seeds, ratios, when each converged."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from dualmctx.reproduction.convergence import RULES, Evaluated, chance_of_level, converged
from dualmctx.reproduction.experiments import Algorithm, Comparison
from dualmctx.reproduction.matches import Curve
from dualmctx.reproduction.paper import TABLE_1, published_ratio
from dualmctx.reproduction.training_setup import Row
from dualmctx.runs.folder import flatten, to_dict

SECONDS = ("seconds", "selfplay_seconds", "learn_seconds")
_LEVEL = 0.95


class Outcome(NamedTuple):
    """What came of an algorithm with a seed.

    Attributes:
      rows: of its run.
      curve: of its checkpoints.
    """

    rows: list[Row]
    curve: Curve


class Estimate(NamedTuple):
    """A mean over seeds.

    Attributes:
      mean: of the values.
      low: lower end of the interval of 95 %, by Student's t; `None` where there is none, as for a
        single value or for equal ones, which say nothing of how far the next one may be.
      high: upper end, likewise.
      values: of each seed.
    """

    mean: float
    low: float | None
    high: float | None
    values: tuple[float, ...]


def estimate(
    values: Sequence[float], limits: tuple[float, float] = (-math.inf, math.inf)
) -> Estimate | None:
    """Estimates a mean from a value a seed, within limits; `None` where there is no value."""
    if not values:
        return None
    mean, number = float(np.mean(values)), len(values)
    if np.allclose(values, mean, rtol=1e-9, atol=1e-9):
        return Estimate(mean, None, None, tuple(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(number)
    half = float(scipy.stats.t.ppf((1 + _LEVEL) / 2, number - 1)) * error
    least, most = limits
    return Estimate(mean, max(mean - half, least), min(mean + half, most), tuple(values))


def estimate_ratio(ratios: Sequence[float]) -> Estimate | None:
    """Estimates a ratio, by the mean of its logarithms."""
    found = estimate([math.log(x) for x in ratios])
    if found is None:
        return None
    mean, low, high = (None if x is None else math.exp(x) for x in found[:3])
    return Estimate(mean or 0.0, low, high, tuple(ratios))


def summarize(
    game: str,
    comparison: Comparison,
    algorithms: Mapping[str, Algorithm],
    outcomes: Mapping[str, Mapping[int, Outcome]],
) -> dict[str, Any]:
    """Summarises a comparison in a game.

    Args:
      game: of the paper.
      comparison: who is compared with whom.
      algorithms: by their names.
      outcomes: of each algorithm with each seed.

    Returns:
      What JSON can hold: for each algorithm its policy, its time a step, when it converged by
      each rule, how strong it became and its curves; and the ratios of the candidate to each of the
      others, by seeds. A ratio of times or steps to converge is over the seeds in which both have.
    """
    entries = {
        name: _algorithm(algorithms[name], outcomes[name]) | _published(game, comparison, name)
        for name in comparison.algorithms
    }
    return {
        "title": comparison.title,
        "candidate": comparison.candidate,
        "seeds": list(outcomes[comparison.candidate]),
        "algorithms": entries,
        "ratios": {
            other: _ratios(entries, comparison.candidate, other)
            | _published_ratios(game, comparison, other)
            for other in comparison.others
        },
    }


def refresh(summary: dict[str, Any]) -> dict[str, Any]:
    """Applies today's rules of convergence to a summary of an earlier report, by its curves."""
    entries = {
        name: entry | {"converged": _places(entry["curves"])}
        for name, entry in summary["algorithms"].items()
    }
    ratios = {
        other: found | _ratios(entries, summary["candidate"], other)
        for other, found in summary["ratios"].items()
    }
    return summary | {"algorithms": entries, "ratios": ratios}


def changed_policies(summary: dict[str, Any], algorithms: Mapping[str, Algorithm]) -> Iterator[str]:
    """Yields in what the policies of an earlier summary, if it has them, differ from today's.

    Args:
      summary: as `summarize` returned it, read from JSON.
      algorithms: today's, by their names; those that it lacks are not checked.
    """
    for name, entry in summary["algorithms"].items():
        if name in algorithms and "policy" in entry:
            old, new = flatten(entry["policy"]), flatten(to_dict(algorithms[name].policy))
            for field in sorted(x for x in old | new if old.get(x) != new.get(x)):
                yield f"{name} has {field} {old.get(field)} there and {new.get(field)} now"


def _algorithm(algorithm: Algorithm, outcomes: Mapping[int, Outcome]) -> dict[str, Any]:
    curves = {
        seed: x.curve._asdict() | {"found": x.curve.found._asdict()} for seed, x in outcomes.items()
    }
    return {
        "policy": to_dict(algorithm.policy),
        "cost": algorithm.cost._asdict(),
        **{name: _dict(estimate([_mean(x, name) for x in outcomes.values()])) for name in SECONDS},
        "converged": _places(curves),
        "last": {name: _dict(found) for name, found in _last([x.curve for x in outcomes.values()])},
        "curves": curves,
    }


def _places(curves: Mapping[Any, dict[str, Any]]) -> dict[str, dict[Any, dict[str, Any] | None]]:
    """Finds where each seed converged by each rule."""
    places = {
        rule: {seed: converged(Evaluated(**x["found"]), rule) for seed, x in curves.items()}
        for rule in RULES
    }
    return {
        rule: {seed: None if x is None else x._asdict() for seed, x in found.items()}
        for rule, found in places.items()
    }


def _ratios(entries: Mapping[str, dict[str, Any]], one: str, other: str) -> dict[str, Any]:
    """Compares an algorithm with another, seed by seed: most of them had the machine in turns."""
    own, others = entries[one], entries[other]

    def converging(rule: str, part: str) -> dict[str, Any] | None:
        """Returns the ratio of `part` of the places, over the seeds in which both converged."""
        pairs = zip(
            own["converged"][rule].values(), others["converged"][rule].values(), strict=True
        )
        return _dict(estimate_ratio([x[part] / y[part] for x, y in pairs if x and y]))

    def seconds(name: str) -> dict[str, Any] | None:
        pairs = zip(own[name]["values"], others[name]["values"], strict=True)
        return _dict(estimate_ratio([x / y for x, y in pairs]))

    blocks = [x["cost"]["blocks"] or 0 for x in (own, others)]
    return {
        "blocks": blocks[0] / blocks[1],
        **{name: seconds(name) for name in SECONDS},
        "total": {rule: converging(rule, "seconds") for rule in RULES},
        "steps": {rule: converging(rule, "step") for rule in RULES},
    }


def chance_of_seeds(
    summary: dict[str, Any], num_pairs: int
) -> tuple[float, float, dict[int, float]] | None:
    """Says what chance alone gives by the rule `level`; see `convergence.chance_of_level`.

    Args:
      summary: as `summarize` returns it.
      num_pairs: of games of every two checkpoints.

    Returns:
      The share of runs in which an algorithm identical to the reference meets the rule; of these
      the share in which it does so at the last evaluation; and for each number of seeds, from 1 to
      all, the chance that it meets it in at least so many. `None` without evaluations after the
      start.
    """
    reference = next(iter(summary["algorithms"].values()))
    found = [Evaluated(**x["found"]) for x in reference["curves"].values()]
    if not any(step > 0 for step in found[0].steps):
        return None
    chances = [chance_of_level(x, num_pairs) for x in found]
    met = float(np.mean([x.met for x in chances]))
    last = float(np.mean([x.at[-1] for x in chances])) / met
    seeds = len(summary["seeds"])
    least = {x: float(scipy.stats.binom.sf(x - 1, seeds, met)) for x in range(1, seeds + 1)}
    return met, last, least


def _published(game: str, comparison: Comparison, name: str) -> dict[str, Any]:
    is_there = comparison.candidate in TABLE_1[game]
    return {"paper": TABLE_1[game][name]._asdict() if is_there else None}


def _published_ratios(game: str, comparison: Comparison, other: str) -> dict[str, Any]:
    if comparison.candidate not in TABLE_1[game]:
        return {"paper": None}
    return {"paper": {x: published_ratio(game, x, other) for x in ("step", "total")}}


def _mean(outcome: Outcome, name: str) -> float:
    return float(np.mean([row[name] for row in outcome.rows]))


def _last(curves: Sequence[Curve]) -> Iterator[tuple[str, Estimate | None]]:
    """Yields what the last checkpoints are like, by the seeds that say it."""
    found = [x.found for x in curves]
    ratings = {
        "elo": [x.elo[-1] for x in curves],
        "first": [x.first[-1] for x in curves if x.first],
        "second": [x.second[-1] for x in curves if x.second],
    }
    shares = {
        "score": [x.score[-1] for x in found],
        "level": [x.level[-1] for x in found],
        "optimal": [x.optimal[-1] for x in found if x.optimal],
    }
    for name, values in ratings.items():
        yield name, estimate([x for x in values if x is not None])
    for name, values in shares.items():
        yield name, estimate(values, (0.0, 1.0))


def _dict(found: Estimate | None) -> dict[str, Any] | None:
    return None if found is None else found._asdict()
