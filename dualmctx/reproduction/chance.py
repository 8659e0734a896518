"""Simulates the probability that chance alone meets the rule `level`."""

from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from dualmctx.reproduction.convergence import NUM_CONSECUTIVE, CheckpointScores


class Chance(NamedTuple):
    """How often an algorithm identical to the reference meets the rule `level`.

    Attributes:
      met: share of runs in which it meets the rule.
      steps: the evaluated steps after the start.
      at: for each of these steps, the share of runs that first meet the rule at that step.
    """

    met: float
    steps: tuple[int, ...]
    at: tuple[float, ...]


def chance_of_level(
    scores: CheckpointScores, num_pairs: int, *, runs: int = 100_000, seed: int = 0
) -> Chance:
    """Simulates how often an algorithm identical to the reference meets the rule `level`.

    Its checkpoint of a step is as strong as that of the reference: its expected score against the
    last checkpoint of the reference is the score of the reference's own checkpoint of that step.
    For the last step it is a half. Games are won or lost, independently of each other.

    Args:
      scores: the scores of the checkpoints of the reference, at least one of them after the start.
      num_pairs: number of pairs of games between every two checkpoints.
      runs: number of simulated runs.
      seed: seed of the simulation.
    """
    steps, level = zip(
        *((x, y) for x, y in zip(scores.steps, scores.level, strict=True) if x > 0), strict=True
    )
    expected = np.array([*level[:-1], 0.5])
    won = np.random.default_rng(seed).binomial(2 * num_pairs, expected, size=(runs, len(steps)))
    flags = won >= num_pairs
    # At the end of the run, fewer evaluations in a row are enough.
    meets = np.stack([flags[:, i : i + NUM_CONSECUTIVE].all(1) for i in range(len(steps))], axis=1)
    is_met, first = meets.any(1), meets.argmax(1)
    at = np.bincount(first[is_met], minlength=len(steps)) / runs
    return Chance(float(is_met.mean()), steps, tuple(at.tolist()))


def chance_of_seeds(
    summary: dict[str, Any], num_pairs: int
) -> tuple[float, float, dict[int, float]] | None:
    """Returns the probabilities that chance alone meets the rule `level`; see `chance_of_level`.

    Args:
      summary: as `summarize` returns it.
      num_pairs: number of pairs of games between every two checkpoints.

    Returns:
      The share of runs in which an algorithm identical to the reference meets the rule; of these
      the share that meet it at the last evaluation; and for each n from 1 to the number of seeds,
      the probability that at least n seeds meet it. `None` without evaluations after the start.
    """
    reference = next(iter(summary["algorithms"].values()))
    scores = [CheckpointScores(**x["found"]) for x in reference["curves"].values()]
    if not any(step > 0 for step in scores[0].steps):
        return None
    chances = [chance_of_level(x, num_pairs) for x in scores]
    met = float(np.mean([x.met for x in chances]))
    last = float(np.mean([x.at[-1] for x in chances])) / met
    seeds = len(summary["seeds"])
    least = {x: float(scipy.stats.binom.sf(x - 1, seeds, met)) for x in range(1, seeds + 1)}
    return met, last, least
