"""Rows of the engine as messages for a page."""

from collections.abc import Sequence

import numpy as np

import games
from dualmctx.policies.budgets import tree_budgets
from dualmctx.policies.names import tree_names, variant_of
from dualmctx.types import Environment, Policy
from dualmctx.web.protocol import Row
from dualmctx.web.search_rows import describe_weights
from games import GamePosition


def to_analysis(env: Environment, opened: GamePosition, row: Row, policy: Policy) -> Row:
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
