"""dualmctx: Dual Monte Carlo Tree Search and its relatives, fully batched, in JAX."""

from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.factory import evaluate, load_evaluator, make_evaluator
from dualmctx.models.game_model import Model, make_model, make_search_fn
from dualmctx.models.network import Network, make_network
from dualmctx.models.search_memory import SearchMemory, search_memory
from dualmctx.policies import (
    MPV,
    AlphaGo,
    AlphaZero,
    Backup,
    Chain,
    Contempt,
    Dual,
    Execution,
    Gumbel,
    MuZero,
    Puct,
    Root,
    with_options,
)
from dualmctx.policies.window import window_for
from dualmctx.runs.saved_network import Trained, export_trained, load_trained
from dualmctx.search.mctx_export import to_mctx
from dualmctx.search.slots import played_actions
from dualmctx.search.subtree import empty_tree, get_subtree
from dualmctx.search.tree import Tree
from dualmctx.types import ActingOutput, Embedding, Rollouts, Traits, acting_weights

__version__ = "0.1.0"
__all__ = (
    "MPV",
    "ActingOutput",
    "AlphaGo",
    "AlphaZero",
    "Backup",
    "Chain",
    "Contempt",
    "Dual",
    "Embedding",
    "Evaluations",
    "Evaluator",
    "Execution",
    "Gumbel",
    "Model",
    "MuZero",
    "Network",
    "Puct",
    "Rollouts",
    "Root",
    "SearchMemory",
    "Trained",
    "Traits",
    "Tree",
    "acting_weights",
    "empty_tree",
    "evaluate",
    "export_trained",
    "get_subtree",
    "load_evaluator",
    "load_trained",
    "make_evaluator",
    "make_model",
    "make_network",
    "make_search_fn",
    "played_actions",
    "search_memory",
    "to_mctx",
    "window_for",
    "with_options",
)
