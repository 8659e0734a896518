"""Converts evaluations to result rows, with moves in the notation of the game."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import games
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.types import Environment, GameState

Row = dict[str, Any]
# Number of decimal places; further digits would only show rounding errors.
_DIGITS = 6

_NameFn = Callable[[list[int]], list[str]]
"""Formats a sequence of moves."""


def to_rows(env: Environment, states: GameState, evaluations: Evaluations) -> list[Row]:
    """Converts evaluations to rows of JSON values.

    Args:
      env: the game.
      states: the `[S]` positions, as NumPy arrays.
      evaluations: evaluations of the positions.

    Returns:
      One row per position; docs/evaluate.md describes the fields. NaN and infinity become `None`.
    """
    rounded = Evaluations(*map(_round, evaluations))
    name_from = _make_name_fns(env, states)
    return [
        _to_row(Evaluations(*(x[place] for x in rounded)), name_from(place))
        for place in range(len(rounded.action))
    ]


def _round(array: np.ndarray) -> np.ndarray:
    is_number = np.issubdtype(array.dtype, np.floating)
    # Adding 0 converts -0 to 0.
    return np.round(array.astype(np.float64), _DIGITS) + 0.0 if is_number else array


def _make_name_fns(env: Environment, states: GameState) -> Callable[[int], _NameFn]:
    """Returns a function from the index of a position to the function that formats its moves."""
    if not games.is_chess(env):
        # Names do not depend on the position.
        names = [games.format_action(env, None, action) for action in range(env.num_actions)]
        return lambda place: lambda actions: [names[action] for action in actions]

    def name_from(place: int) -> _NameFn:
        start = games.to_position(env, jax.tree.map(lambda x: x[place], states))
        return lambda actions: games.format_moves(env, start, actions)

    return name_from


def _to_row(evaluation: Evaluations, name: _NameFn) -> Row:
    """Converts the evaluation of one position to a row."""
    action = int(evaluation.action)
    return {
        "action": None if action < 0 else action,
        "move": None if action < 0 else name([action])[0],
        "value": _numbers(evaluation.value[None])[0],
        "network_value": _numbers(evaluation.network_value),
        "tree_values": _numbers(evaluation.tree_values),
        "pv": name([x for x in evaluation.principal_variation.tolist() if x >= 0]),
        "heads_agree": bool(evaluation.heads_agree),
        "heads_distance": _numbers(evaluation.heads_distance[None])[0],
        "legal": _to_move_rows(evaluation, name),
    }


def _to_move_rows(evaluation: Evaluations, name: _NameFn) -> list[Row]:
    legal = np.flatnonzero(evaluation.legal_action_mask)
    visits = (
        evaluation.visits[legal].tolist() if evaluation.tree_values.size else [None] * legal.size
    )
    fields = {
        "action": legal.tolist(),
        "move": [name([action])[0] for action in legal.tolist()],
        "network_policy": [_numbers(x) for x in evaluation.network_policy[:, legal].T],
        "weight": _numbers(evaluation.action_weights[legal]),
        "visits": visits,
        "q": _numbers(evaluation.qvalues[legal]),
    }
    return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]


def _numbers(array: np.ndarray) -> list[float | None]:
    """Converts an array to a list; NaN and infinity become `None`."""
    return [x if math.isfinite(x) else None for x in array.tolist()]
