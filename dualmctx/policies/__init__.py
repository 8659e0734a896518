"""The search variants, the registry of their names, and the names of their trees and heads.

To add a variant, write its file and add a row to `REGISTRY`, from which help texts and exports
follow.
"""

from collections.abc import Callable
from typing import NamedTuple

from dualmctx.errors import UserError
from dualmctx.policies.alphago import AlphaGo
from dualmctx.policies.alphazero import AlphaZero
from dualmctx.policies.contempt import Contempt
from dualmctx.policies.dual import MPV, Chain, Dual
from dualmctx.policies.gumbel import Gumbel
from dualmctx.policies.muzero import MuZero
from dualmctx.policies.options import (
    Backup,
    Execution,
    Puct,
    Root,
    named_options,
    window_for,
    with_options,
)
from dualmctx.types import Policy


class Variant(NamedTuple):
    """A row of the registry.

    Attributes:
      policy: the class of the policy, a dataclass of its options.
      summary: a description for help texts, without a final period.
      paper: returns the setting of the variant's paper; `None` if it has no name.
    """

    policy: type[Policy]
    summary: str
    paper: Callable[[], Policy] | None = None


REGISTRY: dict[str, Variant] = {
    "dual": Variant(Dual, "Dual MCTS: two trees grown by two heads of one network", Dual.paper),
    "chain": Variant(Chain, "Dual MCTS with K trees by K heads of one network"),
    "mpv": Variant(MPV, "MPV-MCTS: two trees grown by two separate networks"),
    "alphazero": Variant(AlphaZero, "AlphaZero: one tree, PUCT, the final head"),
    "gumbel": Variant(Gumbel, "Gumbel AlphaZero: mctx's rules, Sequential Halving at the root"),
    "muzero": Variant(MuZero, "MuZero: mctx's rule, one tree, the final head"),
    "alphago": Variant(AlphaGo, "AlphaGo: values mixed from the final head and rollouts"),
    "contempt": Variant(
        Contempt, "search-contempt: AlphaZero against an opponent of limited depth"
    ),
}


def paper_setting(variant: str) -> Policy:
    """Returns the setting of a variant's paper, which does not depend on the defaults.

    Args:
      variant: the name of a variant, such as `dual`.

    Raises:
      UserError: if there is no such variant, or if it has no such setting.
    """
    makers = {name: row.paper for name, row in REGISTRY.items() if row.paper}
    if variant not in makers:
        raise UserError(
            f"the setting paper is for {variant}; it must be for one of {', '.join(makers)}"
        )
    return makers[variant]()


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


__all__ = (
    "REGISTRY",
    "Backup",
    "Execution",
    "Puct",
    "Root",
    "Variant",
    "head_names",
    "named_options",
    "paper_setting",
    "tree_names",
    "variant_of",
    "window_for",
    "with_options",
    *(row.policy.__name__ for row in REGISTRY.values()),
)
