"""Writes the sentences of the report that explain its tables."""

from typing import Any

from dualmctx.reproduction.chance import chance_of_seeds


def explain_times(summary: dict[str, Any]) -> list[str]:
    """Returns sentences that split the time of a step into self-play and learning."""
    return [
        f"A step of {summary['candidate']} takes {ratios['seconds']['mean']:.2f} times as long as "
        f"a step of {other}: self-play takes {ratios['selfplay_seconds']['mean']:.2f} times as "
        f"long, with {ratios['blocks']:.2f} times the blocks of the network per move, and learning "
        f"{ratios['learn_seconds']['mean']:.2f} times as long. "
        f"Learning is {_learning_share(summary, other):.0%} of a step of {other} and "
        f"{_learning_share(summary, summary['candidate']):.0%} of a step of "
        f"{summary['candidate']}."
        for other, ratios in summary["ratios"].items()
    ]


def explain_convergence(summary: dict[str, Any], num_pairs: int) -> list[str]:
    """Returns sentences that interpret a time to converge by the rule `level`.

    They give the number of seeds that converged, the probability of that by chance, and whether the
    steps are equal.

    Args:
      summary: as `summarize` returns it.
      num_pairs: number of pairs of games between every two checkpoints.
    """
    candidate, seeds = summary["candidate"], len(summary["seeds"])
    reference = next(iter(summary["algorithms"]))
    points = summary["algorithms"][candidate]["converged"]["level"]
    reached = sum(x is not None for x in points.values())
    sentences = [f"By the rule level, {candidate} converged in {reached} of {seeds} seeds."]
    chance = chance_of_seeds(summary, num_pairs)
    if chance is not None:
        met, last, least = chance
        number = max(reached, 1)
        sentences[0] += (
            f" By chance alone, an algorithm identical to {reference} meets the rule in {met:.0%} "
            f"of runs ({num_pairs} pairs of games per evaluation), {last:.0%} of these at the last "
            f"evaluation. It meets the rule in at least {number} of {seeds} seeds with probability "
            f"{least[number]:.2f}."
        )
    for other, ratios in summary["ratios"].items():
        steps, total = ratios["steps"]["level"], ratios["total"]["level"]
        if steps is not None and all(x == 1 for x in steps["values"]):
            sentences.append(
                f"{candidate} and {other} converged by the rule level at equal steps "
                f"({len(steps['values'])} of {seeds} seeds), so the ratio of their times, "
                f"{total['mean']:.2f}, is the ratio of their step times."
            )
    return sentences


def _learning_share(summary: dict[str, Any], name: str) -> float:
    entry = summary["algorithms"][name]
    return entry["learn_seconds"]["mean"] / entry["seconds"]["mean"]
