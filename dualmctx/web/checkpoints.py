"""The networks that a server offers, and their description for a page."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import games
from dualmctx.evaluation.records import record_formats
from dualmctx.policies.names import head_names
from dualmctx.runs.saved_network import Trained, load_record, trained_names
from dualmctx.web.protocol import Row
from dualmctx.web.search_rows import Build, list_searches
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
