"""Batched game-tree search in JAX: Dual MCTS, AlphaZero, Gumbel, MuZero and other variants.

Public are the names in `__all__` below and in the `__all__` of each folder. Everything else may
change. A name is imported at its first use, so that `import dualmctx` loads no other package.
"""

import importlib
from typing import TYPE_CHECKING, Any

from dualmctx.version import __version__ as __version__

if TYPE_CHECKING:
    # `X as X` marks a public name for type checkers, which cannot read the `__all__` below.
    from dualmctx.errors import UserError as UserError
    from dualmctx.evaluation.evaluations import Evaluations as Evaluations
    from dualmctx.evaluation.evaluator import Evaluator as Evaluator
    from dualmctx.evaluation.factory import evaluate as evaluate
    from dualmctx.evaluation.factory import load_evaluator as load_evaluator
    from dualmctx.evaluation.factory import make_evaluator as make_evaluator
    from dualmctx.evaluation.stablehlo import export_network as export_network
    from dualmctx.evaluation.stablehlo import export_search as export_search
    from dualmctx.models.adapted_network import adapt_network as adapt_network
    from dualmctx.models.adapted_network import import_network as import_network
    from dualmctx.models.game_model import Model as Model
    from dualmctx.models.game_model import make_model as make_model
    from dualmctx.models.network import Network as Network
    from dualmctx.models.network import make_network as make_network
    from dualmctx.models.network_check import check_network as check_network
    from dualmctx.models.search_fn import make_search_fn as make_search_fn
    from dualmctx.models.search_memory import SearchMemory as SearchMemory
    from dualmctx.models.search_memory import search_memory as search_memory
    from dualmctx.policies import MPV as MPV
    from dualmctx.policies import AlphaGo as AlphaGo
    from dualmctx.policies import AlphaZero as AlphaZero
    from dualmctx.policies import Backup as Backup
    from dualmctx.policies import Chain as Chain
    from dualmctx.policies import Contempt as Contempt
    from dualmctx.policies import Dual as Dual
    from dualmctx.policies import Execution as Execution
    from dualmctx.policies import Gumbel as Gumbel
    from dualmctx.policies import MuZero as MuZero
    from dualmctx.policies import Puct as Puct
    from dualmctx.policies import Root as Root
    from dualmctx.policies import with_options as with_options
    from dualmctx.policies.options import window_for as window_for
    from dualmctx.runs.saved_network import Trained as Trained
    from dualmctx.runs.saved_network import export_trained as export_trained
    from dualmctx.runs.saved_network import load_trained as load_trained
    from dualmctx.runs.saved_network import make_trained as make_trained
    from dualmctx.runs.saved_search import load_search as load_search
    from dualmctx.runs.saved_search import save_search as save_search
    from dualmctx.search.mctx_adapter import to_mctx as to_mctx
    from dualmctx.search.phases import SearchState as SearchState
    from dualmctx.search.slots import played_actions as played_actions
    from dualmctx.search.slots import principal_variation as principal_variation
    from dualmctx.search.subtree import empty_tree as empty_tree
    from dualmctx.search.subtree import get_subtree as get_subtree
    from dualmctx.search.tree import Tree as Tree
    from dualmctx.types import ActingOutput as ActingOutput
    from dualmctx.types import Embedding as Embedding
    from dualmctx.types import Rollouts as Rollouts
    from dualmctx.types import Traits as Traits
    from dualmctx.types import acting_weights as acting_weights
    from dualmctx.visualization import draw_tree as draw_tree

# The same names by module, for use at run time.
_NAMES = {
    "dualmctx.errors": ("UserError",),
    "dualmctx.evaluation.evaluations": ("Evaluations",),
    "dualmctx.evaluation.evaluator": ("Evaluator",),
    "dualmctx.evaluation.factory": ("evaluate", "load_evaluator", "make_evaluator"),
    "dualmctx.evaluation.stablehlo": ("export_network", "export_search"),
    "dualmctx.models.adapted_network": ("adapt_network", "import_network"),
    "dualmctx.models.game_model": ("Model", "make_model"),
    "dualmctx.models.search_fn": ("make_search_fn",),
    "dualmctx.models.network": ("Network", "make_network"),
    "dualmctx.models.network_check": ("check_network",),
    "dualmctx.models.search_memory": ("SearchMemory", "search_memory"),
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
    "dualmctx.policies.options": ("window_for",),
    "dualmctx.runs.saved_network": ("Trained", "export_trained", "load_trained", "make_trained"),
    "dualmctx.runs.saved_search": ("load_search", "save_search"),
    "dualmctx.search.mctx_adapter": ("to_mctx",),
    "dualmctx.search.phases": ("SearchState",),
    "dualmctx.search.slots": ("played_actions", "principal_variation"),
    "dualmctx.search.subtree": ("empty_tree", "get_subtree"),
    "dualmctx.search.tree": ("Tree",),
    "dualmctx.types": ("ActingOutput", "Embedding", "Rollouts", "Traits", "acting_weights"),
    "dualmctx.visualization": ("draw_tree",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = tuple(_MODULES)


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
