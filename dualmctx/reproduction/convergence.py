"""Rules that decide when an algorithm has converged, from the scores of its checkpoints."""

import math
from collections.abc import Sequence
from typing import NamedTuple

MASS, CONFIDENCE, NUM_CONSECUTIVE = 0.9, 0.95, 3
"""The rule `alpha-rank`: the α-rank mass that must be exceeded, the share of resamples in which it
must be exceeded, and the number of evaluations in a row."""
THRESHOLD = 0.95
"""The share of optimal moves of the rule `threshold`."""


class TrainingPoint(NamedTuple):
    """A point in the training of an algorithm.

    Attributes:
      step: the step, fractional if it is interpolated.
      seconds: seconds of training up to the step.
    """

    step: float
    seconds: float


class CheckpointScores(NamedTuple):
    """Scores of the checkpoints of an algorithm, one number per evaluated step.

    Attributes:
      steps: the evaluated steps.
      leads: share of resamples in which the mass of the checkpoint by α-rank exceeds `MASS`, among
        all checkpoints of the comparison up to the same step.
      score: mean result in [0, 1] against the untrained networks of the comparison.
      level: mean result in [0, 1] against the last checkpoint of the reference; that of the
        reference itself is ½ by definition.
      optimal: share of optimal moves of the search, over the positions that optimal play can reach,
        after each step of training; empty in games without an exact solution.
      trained: seconds of training up to the end of each step, from the first step.
    """

    steps: tuple[int, ...]
    leads: tuple[float, ...]
    score: tuple[float, ...]
    level: tuple[float, ...]
    optimal: tuple[float, ...]
    trained: tuple[float, ...]


RULES = {
    "alpha-rank": f"mass above {MASS} in {CONFIDENCE:.0%} of resamples, {NUM_CONSECUTIVE} times "
    "in a row",
    "authors": f"σ(4.9 (2w − 1))² above {MASS}, where w is the score against the untrained "
    "networks",
    "level": f"at least half of the points against the last checkpoint of the first algorithm of "
    f"the table, {NUM_CONSECUTIVE} times in a row or to the end of the run",
    "perfect": f"optimal in all positions that optimal play can reach, {NUM_CONSECUTIVE} steps "
    "in a row",
    "threshold": f"{THRESHOLD:.0%} of the moves optimal in the positions that optimal play can "
    "reach, for the first time, interpolated between steps",
}
"""The rules by name; `docs/reproduce.md` discusses them."""


def first_in_a_row(
    flags: Sequence[bool], number: int, *, or_to_the_end: bool = False
) -> int | None:
    """Returns the index of the first of `number` true flags in a row, or `None`.

    With `or_to_the_end`, fewer flags are enough at the end of the sequence.
    """
    run = 0
    for i, flag in enumerate(flags):
        run = run + 1 if flag else 0
        if run == number:
            return i - number + 1
    return len(flags) - run if run and or_to_the_end else None


def authors_score(score: float) -> float:
    """Computes the number that the authors of the paper call α-rank, from a score w in [0, 1].

    Formula: σ(4.9 (2w − 1))², which is above 0.9 if w is above 0.7977.

    Source: the script of the authors.
    """
    return 1 / (1 + math.exp(-4.9 * (2 * score - 1))) ** 2


def converged(scores: CheckpointScores, rule: str) -> TrainingPoint | None:
    """Returns the point at which an algorithm has converged by a rule, or `None`.

    If a rule asks for several evaluations in a row, the point is the first of them. Only
    evaluations after step 0 count, because networks are untrained before.

    Args:
      scores: the scores of the checkpoints.
      rule: one of `RULES`.
    """
    if rule == "threshold":
        return _cross(scores)
    if rule == "perfect":
        index = first_in_a_row([x == 1 for x in scores.optimal], NUM_CONSECUTIVE)
        return None if index is None else _point_at(scores, index + 1)
    flags = {
        "alpha-rank": [x >= CONFIDENCE for x in scores.leads],
        "authors": [authors_score(x) > MASS for x in scores.score],
        "level": [x >= 0.5 for x in scores.level],
    }[rule]
    after = [flag and step > 0 for flag, step in zip(flags, scores.steps, strict=True)]
    number = 1 if rule == "authors" else NUM_CONSECUTIVE
    index = first_in_a_row(after, number, or_to_the_end=rule == "level")
    return None if index is None else _point_at(scores, scores.steps[index])


def _cross(scores: CheckpointScores) -> TrainingPoint | None:
    """Returns the point at which the share of optimal moves reaches the threshold.

    It is interpolated linearly between steps. The share of the untrained network is not recorded,
    so an algorithm that reaches the threshold during the first step does so at step 1.
    """
    after = next((i for i, x in enumerate(scores.optimal) if x >= THRESHOLD), None)
    if after is None:
        return None
    if after == 0:
        return _point_at(scores, 1)
    below, above = scores.optimal[after - 1 : after + 1]
    share = (THRESHOLD - below) / (above - below)
    begin, end = scores.trained[after - 1 : after + 1]
    return TrainingPoint(after + share, begin + share * (end - begin))


def _point_at(scores: CheckpointScores, step: int) -> TrainingPoint:
    return TrainingPoint(step, scores.trained[step - 1])
