"""The names of searches, of their trees, and of a network's heads, the same in every output."""

from dualmctx.policies import REGISTRY
from dualmctx.types import Policy


def variant_of(policy: Policy) -> str:
    """Returns the name of a search: that of its variant, or of its class if it has no variant."""
    names = (name for name, row in REGISTRY.items() if type(policy) is row.policy)
    return next(names, type(policy).__name__)


def tree_names(number: int) -> list[str]:
    """Returns the names of the trees of a search, first to last."""
    names = {1: ["tree"], 2: ["small", "large"]}
    return names.get(number, [f"tree {i}" for i in range(1, number + 1)])


def head_names(number: int) -> list[str]:
    """Returns the names of the heads of a network, first to last."""
    if number <= 2:
        return ["intermediate", "final"][2 - number :]
    return [*(f"intermediate {i}" for i in range(1, number)), "final"]
