"""When an algorithm has converged: rules over the evaluations of its checkpoints."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MASS, CONFIDENCE, IN_A_ROW = 0.9, 0.95, 3
"""The mass of α-rank that leads, in which share of resamples, in how many evaluations."""
THRESHOLD = 0.95
"""The share of optimal moves that the rule `threshold` asks."""


class Place(NamedTuple):
    """Where in its training an algorithm was.

    Attributes:
      step: of training; between two steps where it is interpolated.
      seconds: of training alone until then.
    """

    step: float
    seconds: float


class Chance(NamedTuple):
    """How often an algorithm identical to the reference meets the rule `level`.

    Attributes:
      met: share of runs in which it does.
      steps: the evaluated steps after the start.
      at: for each of these the share of runs in which the rule is met there.
    """

    met: float
    steps: tuple[int, ...]
    at: tuple[float, ...]


class Evaluated(NamedTuple):
    """What the evaluations of an algorithm's checkpoints found, a number each, in order.

    Attributes:
      steps: of training.
      leads: share of resamples in which the checkpoint's α-rank mass exceeds `MASS`, among all
        checkpoints of the comparison's algorithms up to the same step.
      score: mean result in [0, 1] against the untrained networks of these algorithms.
      level: the same against the reference's last checkpoint; its own is ½ by definition.
      optimal: share of optimal moves by the search, wherever optimal play can lead, after each step
        of training; empty where there is no exact solution.
      trained: seconds of training alone until the end of each step, from the first on.
    """

    steps: tuple[int, ...]
    leads: tuple[float, ...]
    score: tuple[float, ...]
    level: tuple[float, ...]
    optimal: tuple[float, ...]
    trained: tuple[float, ...]


RULES = {
    "alpha-rank": f"mass above {MASS} in {CONFIDENCE:.0%} of resamples, {IN_A_ROW} times in a row",
    "authors": f"σ(4.9 (2w − 1))² above {MASS}, w the score against the untrained networks",
    "level": f"at least half the points against the last checkpoint of the first algorithm of the "
    f"table, {IN_A_ROW} times in a row or to the end of the run",
    "perfect": f"optimal wherever optimal play can lead, {IN_A_ROW} steps in a row",
    "threshold": f"{THRESHOLD:.0%} of the moves optimal wherever optimal play can lead, for the "
    "first time, interpolated between steps",
}
"""The rules by their names; `docs/reproduce.md` says what each can tell."""


def first_in_a_row(
    flags: Sequence[bool], number: int, *, or_to_the_end: bool = False
) -> int | None:
    """Returns the place of the first of so many true flags in a row, `None` if there are none.

    With `or_to_the_end` fewer will do if they are the last ones.
    """
    run = 0
    for i, flag in enumerate(flags):
        run = run + 1 if flag else 0
        if run == number:
            return i - number + 1
    return len(flags) - run if run and or_to_the_end else None


def authors_score(score: float) -> float:
    """Computes what the paper's authors call α-rank, from a share of points w in [0, 1].

    Formula: σ(4.9 (2w − 1))², above 0.9 if w is above 0.7977.

    Source: the authors' own script.
    """
    return 1 / (1 + math.exp(-4.9 * (2 * score - 1))) ** 2


def converged(found: Evaluated, rule: str) -> Place | None:
    """Finds where an algorithm has converged by a rule.

    Where a rule asks for several evaluations in a row it is the first of them. Untrained networks
    have converged by none: only evaluations after step 0 count.

    Args:
      found: by the evaluations.
      rule: one of `RULES`.

    Returns:
      The place, or `None` if it has not converged.
    """
    if rule == "threshold":
        return _cross(found)
    if rule == "perfect":
        place = first_in_a_row([x == 1 for x in found.optimal], IN_A_ROW)
        return None if place is None else _place(found, place + 1)
    flags = {
        "alpha-rank": [x >= CONFIDENCE for x in found.leads],
        "authors": [authors_score(x) > MASS for x in found.score],
        "level": [x >= 0.5 for x in found.level],
    }[rule]
    after = [flag and step > 0 for flag, step in zip(flags, found.steps, strict=True)]
    number = 1 if rule == "authors" else IN_A_ROW
    place = first_in_a_row(after, number, or_to_the_end=rule == "level")
    return None if place is None else _place(found, found.steps[place])


def chance_of_level(
    found: Evaluated, num_pairs: int, *, runs: int = 100_000, seed: int = 0
) -> Chance:
    """Simulates how often an algorithm identical to the reference meets the rule `level`.

    Its checkpoint of a step is as strong as the reference's of that step: it is expected to score
    against the reference's last one what that did. Its last one is expected to score a half. Games
    are won or lost, independently of each other.

    Args:
      found: by the evaluations of the reference, with at least one after the start.
      num_pairs: of games of every two checkpoints.
      runs: that are simulated.
      seed: of the simulation.

    Returns:
      The shares.
    """
    steps, level = zip(
        *((x, y) for x, y in zip(found.steps, found.level, strict=True) if x > 0), strict=True
    )
    score = np.array([*level[:-1], 0.5])
    won = np.random.default_rng(seed).binomial(2 * num_pairs, score, size=(runs, len(steps)))
    flags = won >= num_pairs
    # Fewer than three in a row will do where the run ends.
    meets = np.stack([flags[:, i : i + IN_A_ROW].all(1) for i in range(len(steps))], axis=1)
    is_met, first = meets.any(1), meets.argmax(1)
    at = np.bincount(first[is_met], minlength=len(steps)) / runs
    return Chance(float(is_met.mean()), steps, tuple(at.tolist()))


def _cross(found: Evaluated) -> Place | None:
    """Finds where the share of optimal moves reaches the threshold, by the line between steps.

    What the untrained network does is not recorded: who is there after a step is there at step 1.
    """
    after = next((i for i, x in enumerate(found.optimal) if x >= THRESHOLD), None)
    if after is None:
        return None
    if after == 0:
        return _place(found, 1)
    below, above = found.optimal[after - 1 : after + 1]
    share = (THRESHOLD - below) / (above - below)
    begin, end = found.trained[after - 1 : after + 1]
    return Place(after + share, begin + share * (end - begin))


def _place(found: Evaluated, step: int) -> Place:
    return Place(step, found.trained[step - 1])
