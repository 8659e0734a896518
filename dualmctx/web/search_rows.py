"""The searches that a page offers for a network, and their descriptions."""

from collections.abc import Callable
from typing import Any

from dualmctx.errors import UserError
from dualmctx.evaluation.tasks import can_deepen
from dualmctx.matches.player_spec import OWN
from dualmctx.policies import REGISTRY, Gumbel
from dualmctx.policies.budgets import tree_budgets
from dualmctx.policies.names import tree_names, variant_of
from dualmctx.types import Policy
from dualmctx.web.protocol import Row

Build = Callable[[str | None], Policy]
"""Builds the search that a message names; `None` for the default search, `own` for that of the
network's training. Raises a UserError if there is no such search."""


def list_searches(build: Build, num_heads: int) -> list[Row]:
    """Returns the searches that a network can use: the default, that of the training, the others.

    A search that equals one before it is left out.

    Args:
      build: builds the searches.
      num_heads: H, the number of heads of the network.
    """
    found: dict[str | None, Policy] = {None: build(None)}
    own: Policy | None = None
    for name in (OWN, *REGISTRY):
        try:
            policy = build(name)
        except UserError:
            continue
        own = policy if name == OWN else own
        if _fits(policy, num_heads) and policy not in found.values():
            found[name] = policy
    return [_describe(name, policy, own) for name, policy in found.items()]


def _fits(policy: Policy, num_heads: int) -> bool:
    return max(policy.heads) < num_heads and len(set(policy.heads)) <= num_heads


def _describe(name: str | None, policy: Policy, own: Policy | None) -> Row:
    variant, budgets = variant_of(policy), tree_budgets(policy)
    origin = " (own)" if policy == own else " (default)" if name is None else ""
    return {
        "name": name,
        "variant": variant,
        "label": variant + origin,
        "trees": tree_names(len(budgets)),
        "simulations": list(budgets),
        "deepens": can_deepen(policy),
        "summary": REGISTRY[variant].summary,
    }


def describe_weights(policy: Any) -> str:
    """Returns a sentence on the source of a policy, the weights of the moves of a search."""
    if isinstance(policy, Gumbel):
        return (
            "The policy follows from the prior and Q. The search plays the move that Sequential"
            " Halving leaves, which has rank 1; the other ranks follow the policy."
        )
    return f"The policy is {_weights(policy)}; the ranks follow it."


def _weights(policy: Any) -> str:
    budgets = tree_budgets(policy)
    if len(budgets) == 1:
        if {"act", "learn"} & set(getattr(getattr(policy, "puct", None), "regularized", ())):
            return "computed from the prior and Q (regularized)"
        is_smoothed = getattr(getattr(policy, "root", None), "visit_weights", "") == "smoothed"
        return "the share of the visits" + (", one added to each" if is_smoothed else "")
    names = tree_names(len(budgets))
    trees = [name if name.startswith("tree") else f"the {name} tree" for name in names]
    first = trees[0] if budgets[0] else trees[-1]
    return {
        "small_visits": f"the share of the visits of {first}",
        "large_visits": f"the share of the visits of {trees[-1]}, one added to each",
        "all_visits": "the share of the visits of all trees",
        "regularized": f"computed from the prior and the Q of {trees[-1]} (regularized)",
    }[policy.action_weights]
