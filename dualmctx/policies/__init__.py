"""The search variants, a file each, and the registry by which commands name them."""

from typing import NamedTuple

from dualmctx.policies.alphago import AlphaGo
from dualmctx.policies.alphazero import AlphaZero
from dualmctx.policies.chain import Chain
from dualmctx.policies.contempt import Contempt
from dualmctx.policies.dual import Dual
from dualmctx.policies.gumbel import Gumbel
from dualmctx.policies.mpv import MPV
from dualmctx.policies.muzero import MuZero
from dualmctx.policies.options import Puct
from dualmctx.types import Policy


class Variant(NamedTuple):
    """A row of the registry: the policy's options, which are the policy, and what it is."""

    policy: type[Policy]
    summary: str


REGISTRY: dict[str, Variant] = {
    "dual": Variant(Dual, "Dual MCTS: two trees grown by two heads of one network"),
    "chain": Variant(Chain, "Dual MCTS with K trees by K heads of one network"),
    "mpv": Variant(MPV, "MPV-MCTS: two trees grown by two separate networks"),
    "alphazero": Variant(AlphaZero, "AlphaZero: one tree, PUCT, the final head"),
    "gumbel": Variant(Gumbel, "Gumbel AlphaZero: mctx's rules, Sequential Halving at the root"),
    "muzero": Variant(MuZero, "MuZero's search: mctx's rule"),
    "alphago": Variant(AlphaGo, "AlphaGo: leaves valued by the final head and by rollouts"),
    "contempt": Variant(
        Contempt, "search-contempt: AlphaZero against an opponent of limited sight"
    ),
}

__all__ = (
    "MPV",
    "REGISTRY",
    "AlphaGo",
    "AlphaZero",
    "Chain",
    "Contempt",
    "Dual",
    "Gumbel",
    "MuZero",
    "Puct",
    "Variant",
)
