"""Batched game-tree search in JAX: Dual MCTS, AlphaZero, Gumbel, MuZero and other variants.

Public are the names in `__all__` below and in the `__all__` of each folder. Everything else may
change. A name is imported at its first use, so that `import dualmctx` loads no other package.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
# The same imports as above, for use at run time.
_NAMES = {
    "dualmctx.evaluation.evaluations": ("Evaluations",),
    "dualmctx.evaluation.evaluator": ("Evaluator",),
    "dualmctx.evaluation.factory": (
        "evaluate",
        "load_evaluator",
        "make_evaluator",
    ),
    "dualmctx.models.game_model": (
        "Model",
        "make_model",
        "make_search_fn",
    ),
    "dualmctx.models.network": (
        "Network",
        "make_network",
    ),
    "dualmctx.models.search_memory": (
        "SearchMemory",
        "search_memory",
    ),
    "dualmctx.policies": (
        "MPV",
        "AlphaGo",
        "AlphaZero",
        "Backup",
        "Chain",
        "Contempt",
        "Dual",
        "Execution",
        "Gumbel",
        "MuZero",
        "Puct",
        "Root",
        "with_options",
    ),
    "dualmctx.policies.window": ("window_for",),
    "dualmctx.runs.saved_network": (
        "Trained",
        "export_trained",
        "load_trained",
    ),
    "dualmctx.search.mctx_export": ("to_mctx",),
    "dualmctx.search.slots": ("played_actions",),
    "dualmctx.search.subtree": (
        "empty_tree",
        "get_subtree",
    ),
    "dualmctx.search.tree": ("Tree",),
    "dualmctx.types": (
        "ActingOutput",
        "Embedding",
        "Rollouts",
        "Traits",
        "acting_weights",
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Lists the public names too, imported or not."""
    return sorted({*globals(), *__all__})
