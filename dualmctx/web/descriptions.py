"""The fields of answers that describe networks, positions and searches, as JSON values."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.game_files.records import record_formats
from dualmctx.matches.player_spec import OWN
from dualmctx.policies import REGISTRY, Gumbel, head_names, tree_names, variant_of
from dualmctx.runs.saved_network import Trained, load_record, trained_names
from dualmctx.serving.tasks import can_deepen
from dualmctx.types import Environment, Policy, tree_budgets
from dualmctx.web.protocol import Row
from games import GamePosition, pictures
from games.exact import SECONDS
from games.records import is_go

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
Cell = tuple[int, int]
"""A row from the top and a column of a picture, from 0."""
_IN_A_ROW = {"connect_four": 4, "tic_tac_toe": 3, "connect2": 2}
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
_HEX_NEIGHBOURS = ((0, -1), (0, 1), (-1, 0), (1, 0), (-1, 1), (1, -1))


class Offered(NamedTuple):
    """A network that a page may open.

    Attributes:
      name: its name in messages: the argument of the command line, or the name of a packaged one.
      record: the record of its training.
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
    saved = record["architecture"]
    fields = record["network"] | saved["fields"]
    texts = {"num_blocks": "{} blocks", "width": "width {}"}
    size = " of ".join(text.format(fields[name]) for name, text in texts.items() if name in fields)
    search = record["search"].get("variant")
    parts = saved.get("factory") or size, search and f"trained with {search}"
    return ", ".join(filter(None, parts))


def list_searches(build: Build, num_heads: int) -> list[Row]:
    """Returns the searches that a network can use: the default, that of the training, the others.

    A search that equals one before it is left out.
    """
    found: dict[str | None, Policy] = {None: build(None)}
    own: Policy | None = None
    for name in (OWN, *REGISTRY):
        try:
            policy = build(name)
        except UserError:
            continue
        own = policy if name == OWN else own
        fits = max(policy.heads) < num_heads and len(set(policy.heads)) <= num_heads
        if fits and policy not in found.values():
            found[name] = policy
    return [_describe(name, policy, own) for name, policy in found.items()]


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


def describe_position(env: Environment, opened: GamePosition) -> Row:
    """Returns the fields of the answer `position`."""
    state, is_over = opened.state, opened.is_over
    shape = "points" if is_go(env) else "hex" if env.id == "hex" else "square"
    return {
        "picture": _picture(opened),
        "shape": shape,
        "side": opened.side,
        "is_over": is_over,
        "result": result_of(env, opened) if is_over else None,
        "moves": games.format_moves(env, opened.start, opened.actions),
        "actions": opened.actions,
        "entries": [entry._asdict() for entry in games.entries(env, state)],
        "fen": games.to_fen(env, state) if games.has_fen(env) else None,
        "ply": len(opened.actions),
    }


def find_exact(env: Environment, opened: GamePosition) -> Row | None:
    """Returns the exact values of a position, in the view of the side to move.

    These are `source`, `value` and `moves`, the value of each legal move by its name; `None` if
    they are unknown.
    """
    found = games.exact_values(env, opened.state, SECONDS)
    if found is None:
        return None
    moves = {
        games.format_action(env, opened.state, action): value
        for action, value in found.moves.items()
    }
    return {"source": found.source, "value": found.value, "moves": moves}


def _picture(opened: GamePosition) -> Row:
    try:
        drawn = pictures.picture(opened.state, opened.before if opened.actions else None)
    except UserError as error:
        # A game of the user may have no picture; its moves are entered by name.
        drawn = pictures.Picture(caption=str(error), rows=())
    return drawn.to_dict()


def result_of(env: Environment, opened: GamePosition) -> Row:
    """Returns the side that won a finished game, `None` for a draw; a text; and winning cells."""
    winner = pictures.winning_side(opened.state, opened.first_player)
    if winner is None:
        return {"winner": None, "text": "draw", "cells": []}
    cells = winning_cells(env.id, _picture(opened)["rows"], winner)
    text = f"{pictures.player_names(env.id)[winner]} won"
    return {"winner": winner, "text": text, "cells": cells}


def winning_cells(game: str, rows: Sequence[Sequence[str]], winner: int) -> list[Cell]:
    """Returns the cells that won a finished game, sorted; none if the game has no such cells.

    Args:
      game: the name of the game.
      rows: the cells of its picture, see `games.pictures.Picture`.
      winner: the side that won, 0 for the side that began.
    """
    stones = {
        (y, x)
        for y, row in enumerate(rows)
        for x, cell in enumerate(row)
        if cell.lower() == "xo"[winner]
    }
    if game == "hex":
        return sorted(_hex_chain(stones, len(rows), winner))
    length = _IN_A_ROW.get(game)
    if length is None:
        return []
    lines = (
        [(y + i * dy, x + i * dx) for i in range(length)]
        for (y, x), (dy, dx) in itertools.product(stones, _DIRECTIONS)
    )
    return sorted({cell for line in lines if stones.issuperset(line) for cell in line})


def _hex_chain(stones: set[Cell], size: int, winner: int) -> list[Cell]:
    """Returns a shortest chain between the edges of a side: top and bottom for the first side."""
    # Each row of the picture begins with row // 2 blanks, without which columns are those of Hex.
    cells = {(y, x - y // 2) for y, x in stones}
    paths = {cell: [cell] for cell in sorted(cells) if cell[winner] == 0}
    frontier = list(paths)
    for cell in frontier:
        if cell[winner] == size - 1:
            return [(y, x + y // 2) for y, x in paths[cell]]
        for dy, dx in _HEX_NEIGHBOURS:
            after = cell[0] + dy, cell[1] + dx
            if after in cells and after not in paths:
                paths[after] = [*paths[cell], after]
                frontier.append(after)
    return []


def describe_analysis(env: Environment, opened: GamePosition, row: Row, policy: Policy) -> Row:
    """Returns the fields that describe a search, from a row of the engine without an error.

    Args:
      env: the game.
      opened: the position.
      row: the row, as of `dualmctx serve`.
      policy: the search.
    """
    line = row["pv"]
    moves = [*opened.actions, *line]
    return {
        "variant": variant_of(policy),
        "trees": tree_names(len(tree_budgets(policy))),
        "policy": describe_weights(policy),
        "simulations": row.get("simulations", 0),
        "reused": row.get("reused", 0),
        "value": row["value"],
        "tree_values": row["tree_values"],
        "moves": [
            {
                "action": move["action"],
                "name": move["move"],
                "visits": move["visits"],
                "q": move["q"],
                "weight": move["weight"],
                "prior": move["network_policy"],
            }
            for move in row["legal"]
        ],
        "line": line,
        "line_actions": games.parse_moves(env, moves, opened.start)[len(opened.actions) :],
        "heads": {
            "value": row["network_value"],
            "agree": row["heads_agree"],
            "distance": row["heads_distance"],
        },
    }


def choose_move(
    moves: Sequence[Row], best: int, temperature: float, rng: np.random.Generator
) -> Row:
    """Chooses a move: the best one, or one sampled in proportion to weight^(1 / temperature).

    Args:
      moves: the `moves` of an analysis, at least one.
      best: the action that the search selects.
      temperature: from 0, which is the best move.
      rng: the random numbers.
    """
    if temperature > 0:
        weights = np.array([move["weight"] or 0.0 for move in moves])
        # The largest weight becomes 1, so that no power of all weights is 0.
        powers = (weights / (weights.max() or 1.0)) ** (1 / temperature)
        if powers.sum() > 0:
            return moves[int(rng.choice(len(moves), p=powers / powers.sum()))]
    return next(move for move in moves if move["action"] == best)


def describe_weights(policy: Any) -> str:
    """Returns a sentence on the source of a policy, the weights of the moves of a search."""
    if isinstance(policy, Gumbel):
        return (
            "The policy follows from the prior and Q. The search plays the move that Sequential"
            " Halving leaves, which has rank 1; the other ranks follow the policy."
        )
    return f"The policy is {_weights(policy)}; the ranks follow it."


def _weights(policy: Any) -> str:
    budgets = tree_budgets(policy)
    if len(budgets) == 1:
        if {"act", "learn"} & set(getattr(getattr(policy, "puct", None), "regularized", ())):
            return "computed from the prior and Q (regularized)"
        is_smoothed = getattr(getattr(policy, "root", None), "visit_weights", "") == "smoothed"
        return "the share of the visits" + (", one added to each" if is_smoothed else "")
    names = tree_names(len(budgets))
    trees = [name if name.startswith("tree") else f"the {name} tree" for name in names]
    first = trees[0] if budgets[0] else trees[-1]
    return {
        "small_visits": f"the share of the visits of {first}",
        "large_visits": f"the share of the visits of {trees[-1]}, one added to each",
        "all_visits": "the share of the visits of all trees",
        "regularized": f"computed from the prior and the Q of {trees[-1]} (regularized)",
    }[policy.action_weights]
