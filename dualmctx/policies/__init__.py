"""The search variants, a file each, and the registry by which commands name them."""

from typing import NamedTuple

from dualmctx.policies.alphazero import AlphaZero
from dualmctx.policies.dual import Dual
from dualmctx.policies.gumbel import Gumbel
from dualmctx.policies.muzero import MuZero
from dualmctx.policies.options import Puct
from dualmctx.types import Policy


class Variant(NamedTuple):
    """A row of the registry: the policy's options, which are the policy, and what it is."""

    policy: type[Policy]
    summary: str


REGISTRY: dict[str, Variant] = {
    "dual": Variant(Dual, "Dual MCTS: two trees grown by two heads of one network"),
    "alphazero": Variant(AlphaZero, "AlphaZero: one tree, PUCT, the final head"),
}

__all__ = ("REGISTRY", "AlphaZero", "Dual", "Gumbel", "MuZero", "Puct", "Variant")
