"""The cost of a move of a search, in evaluations and in blocks of the network."""

from typing import NamedTuple

from dualmctx.types import HasHeads, Policy


class MoveCost(NamedTuple):
    """The cost of one move if all simulations end at new nodes, without the root evaluation.

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
    """Computes the cost of a move of a policy.

    Let b_k be the simulations of tree k and d_k the number of blocks before its head. Then
        blocks = b_0 d_0 + Σ_k b_k (d_k - d_0)
    or b_k d_k for a later head that does not resume from the activations of the first one. A
    rollout by the first head adds, to each simulation, one evaluation of d_0 blocks per move.

    Args:
      policy: a search variant.
      network: a `dualmctx.models.network.Network`.
      keep_activations: see `make_model`.

    Returns:
      The cost.
    """
    depths = network.head_depths
    budget = policy.num_simulations
    budgets = budget if isinstance(budget, tuple) else (budget,)
    first, *later = (depths[head] for head in policy.heads)
    can_resume = getattr(network, "can_resume", not policy.traits.separate_trunks)
    is_resumed = keep_activations and can_resume
    blocks = budgets[0] * first
    for number, depth in zip(budgets[1:], later, strict=True):
        blocks += number * (depth - first if is_resumed and depth >= first else depth)
    plies = _rollout_plies(policy)
    if plies is None:
        return MoveCost(sum(budgets), None, None)
    evaluations = sum(budgets) + budgets[0] * plies
    return MoveCost(sum(budgets), evaluations, blocks + budgets[0] * plies * depths[0])


def _rollout_plies(policy: Policy) -> int | None:
    """Returns the number of moves per rollout that the network plays; `None` if not fixed."""
    rollouts = policy.traits.rollouts
    if rollouts is None or rollouts.player != "intermediate":
        return 0
    return rollouts.max_length
