"""What a move of a search costs, counted in evaluations and blocks of the network."""

from typing import NamedTuple

from dualmctx.types import HasHeads, Policy


class MoveCost(NamedTuple):
    """The cost of one move, where simulations end at new nodes; the root's own evaluation apart.

    Attributes:
      simulations: of all trees.
      evaluations: of positions by a head of the network; a later head counts anew. `None` where
        rollouts by the network have no fixed length.
      blocks: residual blocks that these run, likewise.
    """

    simulations: int
    evaluations: int | None
    blocks: int | None


FREE = MoveCost(0, 0, 0)


def move_cost(policy: Policy, network: HasHeads, *, keep_activations: bool = True) -> MoveCost:
    """Counts what a move of a policy costs.

    With b_k the simulations of tree k and d_k the blocks before its head,
        blocks = b_0 d_0 + Σ_k b_k (d_k - d_0)
    or b_k d_k where a later head does not go on from the first one's activations. A rollout by the
    network's first head adds its moves, of as many blocks as stand before that head, to each
    simulation.

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
    is_resumed = keep_activations and not policy.traits.separate_trunks
    blocks = budgets[0] * first
    for number, depth in zip(budgets[1:], later, strict=True):
        blocks += number * (depth - first if is_resumed and depth >= first else depth)
    plies = _rollout_plies(policy)
    if plies is None:
        return MoveCost(sum(budgets), None, None)
    evaluations = sum(budgets) + budgets[0] * plies
    return MoveCost(sum(budgets), evaluations, blocks + budgets[0] * plies * depths[0])


def _rollout_plies(policy: Policy) -> int | None:
    """Returns how many moves of a rollout the network plays, `None` where that is open."""
    rollouts = policy.traits.rollouts
    if rollouts is None or rollouts.player != "intermediate":
        return 0
    return rollouts.max_length
