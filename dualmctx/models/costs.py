"""The cost of a move of a search, and budgets of equal cost, in network blocks or seconds."""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

from dualmctx.types import HasHeads, Policy, tree_budgets


class MoveCost(NamedTuple):
    """The cost of one move, without the root evaluation.

    It is exact if all simulations end at new nodes, and if a later tree finds a node by itself only
    after it has evaluated all nodes of the earlier trees. Such a node is evaluated by all heads up
    to its own; see docs/variants.md. The calls of a later head are as wide as the largest share of
    its tree in a round; the rows that smaller shares leave unused are not counted.

    Attributes:
      simulations: number of simulations of all trees.
      evaluations: number of evaluations of a position by a head; each head counts separately.
        `None` if rollouts by the network have no fixed length.
      blocks: number of residual blocks run by these evaluations; `None` in the same case.
    """

    simulations: int
    evaluations: int | None
    blocks: int | None


FREE = MoveCost(0, 0, 0)


def move_cost(policy: Policy, network: HasHeads, *, keep_activations: bool = True) -> MoveCost:
    """Computes the cost of a move of a policy: the simulations times `evaluation_blocks`.

    If the budget of a later tree exceeds the nodes of the earlier trees, the evaluations of the
    remaining nodes by the heads before its own are added. A rollout by the first head adds, to each
    simulation, one evaluation per move.

    Args:
      policy: a search variant.
      network: a `dualmctx.models.network.Network`.
      keep_activations: see `make_model`.

    Returns:
      The cost.
    """
    budgets, plies = tree_budgets(policy), _rollout_plies(policy)
    blocks = evaluation_blocks(policy, network, keep_activations=keep_activations)
    if plies is None or blocks is None:
        return MoveCost(sum(budgets), None, None)
    # A tree finds by itself its budget less the nodes of earlier trees. Its head also evaluates the
    # nodes that each later tree finds by itself.
    own: list[int] = []
    for budget in budgets:
        own.append(max(0, budget - sum(own)))
    counts = [budget + sum(own[tree + 1 :]) for tree, budget in enumerate(budgets)]
    total = sum(count * cost for count, cost in zip(counts, blocks, strict=True))
    return MoveCost(sum(budgets), sum(counts) + budgets[0] * plies, total)


def evaluation_blocks(
    policy: Policy, network: HasHeads, *, keep_activations: bool = True
) -> tuple[int, ...] | None:
    """Returns the number of blocks that a simulation of each tree runs.

    Let d_k be the number of blocks before the head of tree k. A simulation of the first tree runs
    d_0 blocks. Each move of a rollout adds the blocks before the network's first head. An
    evaluation by a later head runs d_k − d_0 blocks, or d_k if that head does not resume from the
    activations of the first one. If the value of the final head has a trunk of its own, an
    evaluation by this head also runs the blocks of that trunk. A move of a rollout does not,
    because it needs no value, and with a `rollout_mix` of 1 no value is computed at all. `None` if
    rollouts by the network have no fixed length.
    """
    plies, depths = _rollout_plies(policy), list(network.head_depths)
    if plies is None:
        return None
    rollout_depth, rollouts = depths[0], policy.traits.rollouts
    if rollouts is None or rollouts.mix < 1:
        depths[-1] += getattr(network, "value_depth", None) or 0
    # A head that evaluates the root alone has no tree.
    first, *later = (depths[head] for head in policy.heads[: len(tree_budgets(policy))])
    can_resume = getattr(network, "can_resume", not policy.traits.separate_trunks)
    is_resumed = keep_activations and can_resume
    costs = (depth - first if is_resumed and depth >= first else depth for depth in later)
    return first + plies * rollout_depth, *costs


def _rollout_plies(policy: Policy) -> int | None:
    """Returns the number of moves per rollout that the network plays; `None` if not fixed."""
    rollouts = policy.traits.rollouts
    if rollouts is None or rollouts.player != "intermediate":
        return 0
    return rollouts.max_length


Simulations = tuple[int, ...]
"""Simulations per move, one number for each tree."""
# The largest number of measurements of a player, and the largest factor between two successive
# budgets.
_MEASUREMENTS, _LONGEST_STEP = 4, 4.0


@dataclasses.dataclass(frozen=True)
class Measured:
    """The measured time of a move.

    Attributes:
      simulations: the simulations per move, one number for each tree.
      seconds: the measured time per move.
    """

    simulations: Simulations
    seconds: float


def split(total: int, shape: Simulations) -> Simulations:
    """Splits simulations among trees in proportion to their shares, by largest remainders.

    Each tree with a share above 0 gets at least one simulation, if there are enough. A tree with a
    share of 0 gets none.
    """
    if total <= sum(map(bool, shape)):
        rest = iter(range(total))
        return tuple(int(bool(x) and next(rest, None) is not None) for x in shape)
    shares = [total * x / sum(shape) for x in shape]
    found = [max(math.floor(share), int(x > 0)) for share, x in zip(shares, shape, strict=True)]
    while sum(found) != total:
        gaps = [share - x for share, x in zip(shares, found, strict=True)]
        if sum(found) < total:
            found[gaps.index(max(gaps))] += 1
        else:
            # The last simulation of a tree is not taken away.
            least = min(gap for gap, x in zip(gaps, found, strict=True) if x > 1)
            found[gaps.index(least)] -= 1
    return tuple(found)


def scale_to_cost(
    shape: Simulations, cost_of: Callable[[Simulations], float], target: float
) -> Simulations:
    """Finds the budget whose cost is closest to the target.

    Args:
      shape: the proportions in which the trees share the simulations.
      cost_of: returns the cost of a move, which increases with the simulations.
      target: the cost, positive.
    """

    def cost(total: int) -> float:
        return cost_of(split(total, shape))

    least = low = sum(map(bool, shape))
    high = 2 * low
    while cost(high) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) < target else (low, middle)
    # Shares are rounded, so a neighbouring total may be closer to the target.
    totals = range(max(least, low - 2), high + 3)
    return split(min(totals, key=lambda total: abs(cost(total) - target)), shape)


def scale_to_seconds(
    shape: Simulations, measure: Callable[[Simulations], float], target: float
) -> tuple[Measured, ...]:
    """Finds the budget whose time is closest to the target, by measurements.

    The first measurement is of `shape` itself. The second scales it in proportion to the target.
    Each further one is where the line through the two closest measurements meets the target.

    Args:
      shape: the first simulations to measure.
      measure: returns the seconds per move, without compilation.
      target: the seconds per move, positive.

    Returns:
      All measurements, the closest to the target last.
    """
    measured: dict[int, Measured] = {}
    total = sum(shape)
    while total not in measured and len(measured) < _MEASUREMENTS:
        simulations = split(total, shape)
        measured[total] = Measured(simulations, measure(simulations))
        total = max(sum(map(bool, shape)), _next_total(measured, target))

    def distance(row: Measured) -> float:
        return abs(math.log(row.seconds / target))

    return tuple(sorted(measured.values(), key=distance, reverse=True))


def _next_total(measured: dict[int, Measured], target: float) -> int:
    """Estimates the total number of simulations that takes the target time."""
    nearest = sorted(measured, key=lambda total: abs(measured[total].seconds - target))
    last = nearest[0]
    found = last * target / measured[last].seconds
    if len(nearest) > 1:
        other = nearest[1]
        slope = (measured[last].seconds - measured[other].seconds) / (last - other)
        if slope > 0:
            found = last + (target - measured[last].seconds) / slope
    return round(min(max(found, last / _LONGEST_STEP), last * _LONGEST_STEP))
