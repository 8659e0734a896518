"""Summaries of runs and games: means over seeds, ratios, convergence."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dualmctx.reproduction.convergence import RULES, CheckpointScores, converged
from dualmctx.reproduction.estimates import Estimate, estimate, estimate_ratio
from dualmctx.reproduction.experiments import Algorithm, Comparison
from dualmctx.reproduction.matches import Curve
from dualmctx.reproduction.paper import TABLE_1, published_ratio
from dualmctx.reproduction.training_setup import Row
from dualmctx.runs.folder import flatten, to_dict

SECONDS = ("seconds", "selfplay_seconds", "learn_seconds")


class Outcome(NamedTuple):
    """The results of an algorithm with one seed.

    Attributes:
      rows: the rows of its run.
      curve: the curves of its checkpoints.
    """

    rows: list[Row]
    curve: Curve


def summarize(
    game: str,
    comparison: Comparison,
    algorithms: Mapping[str, Algorithm],
    outcomes: Mapping[str, Mapping[int, Outcome]],
) -> dict[str, Any]:
    """Summarises a comparison in a game.

    Args:
      game: the name of a game of the paper.
      comparison: the comparison.
      algorithms: the algorithms by name.
      outcomes: the results by algorithm and seed.

    Returns:
      A dictionary of JSON types. It has, for each algorithm, its policy, its time per step, the
      point of convergence by each rule, the strength of its last checkpoint, and its curves; and
      the ratios of the candidate to each other algorithm, by seed. A ratio of times or steps to
      converge covers the seeds in which both algorithms converged.
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
    """Applies the current rules of convergence to the curves of an earlier summary."""
    entries = {
        name: entry | {"converged": _find_convergence(entry["curves"])}
        for name, entry in summary["algorithms"].items()
    }
    ratios = {
        other: earlier | _ratios(entries, summary["candidate"], other)
        for other, earlier in summary["ratios"].items()
    }
    return summary | {"algorithms": entries, "ratios": ratios}


def changed_policies(summary: dict[str, Any], algorithms: Mapping[str, Algorithm]) -> Iterator[str]:
    """Yields the differences between the policies of an earlier summary and the current ones.

    Args:
      summary: an earlier result of `summarize`, read from JSON; it may lack policies.
      algorithms: the current algorithms by name; others are not checked.
    """
    for name, entry in summary["algorithms"].items():
        if name in algorithms and "policy" in entry:
            old, new = (
                flatten(entry["policy"]),
                flatten(to_dict(algorithms[name].policy)),
            )
            for field in sorted(x for x in old | new if old.get(x) != new.get(x)):
                yield f"{field} of {name} was {old.get(field)} and is now {new.get(field)}"


def _algorithm(algorithm: Algorithm, outcomes: Mapping[int, Outcome]) -> dict[str, Any]:
    curves = {
        seed: x.curve._asdict() | {"found": x.curve.found._asdict()} for seed, x in outcomes.items()
    }
    return {
        "policy": to_dict(algorithm.policy),
        "cost": algorithm.cost._asdict(),
        **{
            name: _to_dict(estimate([_mean(x, name) for x in outcomes.values()]))
            for name in SECONDS
        },
        "converged": _find_convergence(curves),
        "last": {
            name: _to_dict(x) for name, x in _summarize_last([x.curve for x in outcomes.values()])
        },
        "curves": curves,
    }


def _find_convergence(
    curves: Mapping[Any, dict[str, Any]],
) -> dict[str, dict[Any, dict[str, Any] | None]]:
    """Returns the point of convergence of each seed by each rule."""
    points = {
        rule: {seed: converged(CheckpointScores(**x["found"]), rule) for seed, x in curves.items()}
        for rule in RULES
    }
    return {
        rule: {seed: None if x is None else x._asdict() for seed, x in by_seed.items()}
        for rule, by_seed in points.items()
    }


def _ratios(entries: Mapping[str, dict[str, Any]], one: str, other: str) -> dict[str, Any]:
    """Returns the ratios of one algorithm to another, by seed; the runs of a seed took turns."""
    own, others = entries[one], entries[other]

    def ratio_to_converge(rule: str, part: str) -> dict[str, Any] | None:
        """Returns the ratio of `part` of the points, over the seeds in which both converged."""
        pairs = zip(
            own["converged"][rule].values(), others["converged"][rule].values(), strict=True
        )
        return _to_dict(estimate_ratio([x[part] / y[part] for x, y in pairs if x and y]))

    def ratio_of_seconds(name: str) -> dict[str, Any] | None:
        pairs = zip(own[name]["values"], others[name]["values"], strict=True)
        return _to_dict(estimate_ratio([x / y for x, y in pairs]))

    blocks = [x["cost"]["blocks"] or 0 for x in (own, others)]
    return {
        "blocks": blocks[0] / blocks[1],
        **{name: ratio_of_seconds(name) for name in SECONDS},
        "total": {rule: ratio_to_converge(rule, "seconds") for rule in RULES},
        "steps": {rule: ratio_to_converge(rule, "step") for rule in RULES},
    }


def _published(game: str, comparison: Comparison, name: str) -> dict[str, Any]:
    is_published = comparison.candidate in TABLE_1[game]
    return {"paper": TABLE_1[game][name]._asdict() if is_published else None}


def _published_ratios(game: str, comparison: Comparison, other: str) -> dict[str, Any]:
    if comparison.candidate not in TABLE_1[game]:
        return {"paper": None}
    return {"paper": {x: published_ratio(game, x, other) for x in ("step", "total")}}


def _mean(outcome: Outcome, name: str) -> float:
    return float(np.mean([row[name] for row in outcome.rows]))


def _summarize_last(curves: Sequence[Curve]) -> Iterator[tuple[str, Estimate | None]]:
    """Yields the strength of the last checkpoints, over the seeds that have a value."""
    scores = [x.found for x in curves]
    ratings = {
        "elo": [x.elo[-1] for x in curves],
        "first": [x.first[-1] for x in curves if x.first],
        "second": [x.second[-1] for x in curves if x.second],
    }
    shares = {
        "score": [x.score[-1] for x in scores],
        "level": [x.level[-1] for x in scores],
        "optimal": [x.optimal[-1] for x in scores if x.optimal],
    }
    for name, values in ratings.items():
        yield name, estimate([x for x in values if x is not None])
    for name, values in shares.items():
        yield name, estimate(values, (0.0, 1.0))


def _to_dict(value: Estimate | None) -> dict[str, Any] | None:
    return None if value is None else value._asdict()
