"""The AlphaZero search that costs as many network blocks as another search."""

from typing import Any

from dualmctx.policies import AlphaZero, Puct, Root
from dualmctx.policies.budgets import scale_to_cost
from dualmctx.policies.costs import move_cost
from dualmctx.types import HasHeads, Policy


def alphazero_of_equal_cost(
    policy: Policy, network: HasHeads, *, keep_activations: bool = True, **model_kwargs: Any
) -> AlphaZero | None:
    """Returns AlphaZero with the number of simulations whose cost is closest to that of a policy.

    It has the policy's constant of exploration and options of the root, and the default of all
    other options.

    Args:
      policy: a search.
      network: the network of both.
      keep_activations: see `make_model`.
      **model_kwargs: other options of `make_model`; ignored.

    Returns:
      The search; `None` if the policy is AlphaZero itself, or if its cost is not known because of
      rollouts without a fixed length.
    """
    del model_kwargs
    blocks = move_cost(policy, network, keep_activations=keep_activations).blocks
    if isinstance(policy, AlphaZero) or blocks is None:
        return None
    given = getattr(policy, "puct", None)
    puct = Puct(c_puct=given.c_puct) if isinstance(given, Puct) else Puct()
    root = getattr(policy, "root", None)
    root = root if isinstance(root, Root) else Root().for_evaluation()

    def with_budget(simulations: tuple[int, ...]) -> AlphaZero:
        return AlphaZero(simulations[0], puct=puct, root=root)

    def cost_of(simulations: tuple[int, ...]) -> float:
        return move_cost(with_budget(simulations), network).blocks or 0

    return with_budget(scale_to_cost((1,), cost_of, blocks))
