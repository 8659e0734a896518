"""The networks that a server offers, and their description for a page."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import games
from dualmctx.evaluation.chunks import can_deepen
from dualmctx.evaluation.write_record import record_formats
from dualmctx.policies import REGISTRY
from dualmctx.runs.saved_network import Trained, load_record, trained_names
from dualmctx.types import Policy
from dualmctx.web.protocol import Row
from games import pictures

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
Build = Callable[[str | None], Policy]
"""Builds the search that a message names; `None` for the default search, `own` for that of the
network's training. Raises a ValueError if there is no such search."""


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
    default = build(None)
    return {
        "game": env.id,
        "game_parameters": trained.record["game_parameters"],
        "title": title(env.id, trained.record["game_parameters"]),
        "players": list(pictures.player_names(env.id)),
        "variants": _variants(build, heads),
        "own": {"variant": variant_name(default), "simulations": _simulations(default)},
        "heads": head_names(heads),
        "exact": games.exact_source(env),
        "records": list(record_formats(env)),
        "fen": games.has_fen(env),
    }


def head_names(number: int) -> list[str]:
    """Returns the names of the heads of a network, the last of which is the final one."""
    if number <= 2:
        return ["intermediate", "final"][2 - number :]
    return [*(f"head {i}" for i in range(1, number)), "final"]


def tree_names(number: int) -> list[str]:
    """Returns the names of the trees of a search."""
    if number <= 2:
        return ["tree"] if number == 1 else ["small", "large"]
    return [f"tree {i}" for i in range(1, number + 1)]


def _variants(build: Build, num_heads: int) -> list[Row]:
    """Returns the searches that a network with H heads can use."""
    rows: list[Row] = []
    for name, variant in REGISTRY.items():
        try:
            policy = build(name)
        except ValueError:
            continue
        if len(set(policy.heads)) > num_heads or max(policy.heads) >= num_heads:
            continue
        simulations = _simulations(policy)
        rows.append(
            {
                "name": name,
                "trees": tree_names(len(simulations)),
                "simulations": simulations,
                "deepens": can_deepen(policy),
                "summary": variant.summary,
            }
        )
    return rows


def variant_name(policy: Policy) -> str:
    """Returns the name of a search in the registry."""
    return next(name for name, row in REGISTRY.items() if type(policy) is row.policy)


def _simulations(policy: Policy) -> list[int]:
    budgets = policy.num_simulations
    return list(budgets) if isinstance(budgets, tuple) else [budgets]


def _summary(record: dict[str, Any]) -> str:
    """Returns a line about a network, from its record."""
    network = record.get("network") or {}
    size = f"{network.get('num_blocks')} blocks of width {network.get('width')}"
    search = (record.get("search") or {}).get("variant")
    return f"{size}, trained with {search}"
