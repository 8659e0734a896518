"""The networks that a server offers, their searches, and their description for a page."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.records import record_formats
from dualmctx.evaluation.tasks import can_deepen
from dualmctx.matches.player_spec import OWN
from dualmctx.policies import REGISTRY, head_names, tree_names, variant_of
from dualmctx.runs.saved_network import Trained, load_record, trained_names
from dualmctx.types import Policy, tree_budgets
from dualmctx.web.protocol import Row
from games import pictures

Build = Callable[[str | None], Policy]
"""Builds the search that a message names; `None` for the default search, `own` for that of the
network's training. Raises a UserError if there is no such search."""
DEFAULT = "connect-four"
"""The network that a page opens if the command line names none."""
_TITLES = {
    "hsr": "Highest Safe Rung",
    "tic_tac_toe": "Tic-tac-toe",
    "go_9x9": "Go 9×9",
    "go_19x19": "Go 19×19",
    "gardner_chess": "Gardner chess",
    "animal_shogi": "Animal shogi",
}


class Offered(NamedTuple):
    """A network that a page may open.

    Attributes:
      name: its name in messages: the argument of the command line, or the name of a packaged one.
      record: the record of its training, with at least a `game`.
    """

    name: str
    record: dict[str, Any]

    def describe(self) -> Row:
        """Returns the network's row in the message `welcome`."""
        game = str(self.record["game"])
        return {
            "name": self.name,
            "game": game,
            "title": title(game, self.record.get("game_parameters") or {}),
            "summary": _summary(self.record),
        }


def offered(sources: Sequence[str], *, game: str | None, network: Sequence[str]) -> list[Offered]:
    """Reads the records of all networks: first the given ones, then those of the package.

    Args:
      sources: run folders, exported files and names, as in `load_trained`.
      game: as in `load_trained`.
      network: as in `load_trained`.

    Raises:
      ValueError: if one of the sources does not exist or cannot be read.
    """
    names = list(dict.fromkeys([*sources, *trained_names()]))
    # A server without arguments begins with Connect Four.
    if not sources and DEFAULT in names:
        names.insert(0, names.pop(names.index(DEFAULT)))
    return [Offered(name, load_record(name, game=game, network=network)) for name in names]


def title(game: str, parameters: dict[str, Any]) -> str:
    """Returns the name of a game for a heading, with its parameters."""
    name = _TITLES.get(game) or (game if ":" in game else game.replace("_", " ").title())
    values = ", ".join(f"{name} {value}" for name, value in parameters.items())
    return f"{name} ({values})" if values else name


def describe_trained(trained: Trained, build: Build) -> Row:
    """Returns the fields of the message `opened` that follow from a network and its searches."""
    env = trained.env
    heads = len(trained.network.head_depths)
    return {
        "game": env.id,
        "game_parameters": trained.record["game_parameters"],
        "title": title(env.id, trained.record["game_parameters"]),
        "players": list(pictures.player_names(env.id)),
        "searches": list_searches(build, heads),
        "heads": head_names(heads),
        "exact": games.exact_source(env),
        "records": list(record_formats(env)),
        "fen": games.has_fen(env),
    }


def _summary(record: dict[str, Any]) -> str:
    """Returns a line about a network, from its record."""
    network = record.get("network") or {}
    size = f"{network.get('num_blocks')} blocks of width {network.get('width')}"
    search = (record.get("search") or {}).get("variant")
    return f"{size}, trained with {search}"


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
