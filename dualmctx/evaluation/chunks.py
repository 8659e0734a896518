"""Splits searches into chunks, so that one compiled program serves any number of simulations."""

import math
from typing import Any

from dualmctx.policies import MPV, Contempt, named_options, with_options
from dualmctx.policies.budgets import tree_budgets
from dualmctx.runs.saved_policy import with_simulations
from dualmctx.search.rounds import Rounds, even_rounds
from dualmctx.types import Policy


def can_deepen(policy: Policy) -> bool:
    """Returns whether a search can continue from its own trees.

    Gumbel cannot, because Sequential Halving plans the budget of the whole search. Search-contempt
    with a limit cannot, because a search that starts from a tree freezes the visits it finds there.
    """
    if isinstance(policy, Contempt) and policy.frozen_visit_limit is not None:
        return False
    return "reuse_capacity" in named_options(policy)


def to_chunk(policy: Policy, size: int) -> Policy:
    """Returns the part of a search that runs without interruption.

    With one tree, it has `size` simulations. With several trees, it has the largest number of
    rounds with at most `size` simulations, but at least one round. Only numbers of rounds after
    which the schedule repeats are considered, so that the rounds of several chunks are the rounds
    of one search.

    Args:
      policy: the search; `can_deepen` is true for it.
      size: simulations of all trees, at least 1.

    Returns:
      The search of a chunk, without a capacity for reused nodes.
    """
    if len(tree_budgets(policy)) == 1:
        return with_options(policy, num_simulations=size)
    rounds = _rounds(policy)
    periods = [n for n in range(1, len(rounds) + 1) if _repeats(rounds, n)]
    fitting = [n for n in periods if sum(map(sum, rounds[:n])) <= size]
    number = max(fitting, default=periods[0])
    budgets = tuple(map(sum, zip(*rounds[:number], strict=True)))
    changes: dict[str, Any] = {"num_rounds": number}
    if isinstance(policy, MPV):
        schedule = policy.schedule
        is_named = isinstance(schedule, str)
        changes = {"schedule": schedule if is_named else schedule[: sum(budgets)]}
    return with_options(policy, num_simulations=budgets, **changes)


def _rounds(policy: Any) -> Rounds:
    if isinstance(policy, MPV):
        return policy.rounds
    budgets = policy.num_simulations
    # Without later trees, the number of rounds has no effect.
    return even_rounds(budgets, policy.num_rounds) if any(budgets[1:]) else (budgets,)


def _repeats(rounds: Rounds, number: int) -> bool:
    """Returns whether the rounds are a whole number of repetitions of the first `number`."""
    return len(rounds) % number == 0 and rounds[:number] * (len(rounds) // number) == rounds


def total_simulations(policy: Policy) -> int:
    """Returns the simulations of all trees together."""
    return sum(tree_budgets(policy))


def keeping_trees(chunk: Policy, num_simulations: int) -> Policy:
    """Returns a chunk that continues from trees with up to `num_simulations` simulations."""
    return with_options(chunk, reuse_capacity=num_simulations)


def to_bucket(policy: Policy, num_simulations: int, size: int) -> Policy:
    """Returns a search with a rounded budget, so that few programs serve all budgets.

    Args:
      policy: the search.
      num_simulations: simulations of all trees, at least 1.
      size: the smallest budget.

    Returns:
      The search with the smallest budget of `size`, 2 `size`, 4 `size`, … that is large enough.
    """
    doublings = max(0, math.ceil(math.log2(num_simulations / size)))
    return with_simulations(policy, size * 2**doublings)
