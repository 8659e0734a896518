"""Rows of the engine as messages for a page."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import games
from dualmctx.policies import Gumbel, tree_names, variant_of
from dualmctx.types import Environment, Policy, tree_budgets
from dualmctx.web.protocol import Row
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
