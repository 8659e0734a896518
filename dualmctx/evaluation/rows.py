"""Rows of results: what was said of a position, with moves in the game's notation."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import games
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.types import Environment

Row = dict[str, Any]
# Digits after the point: more than that is the rounding of the network's products.
_DIGITS = 6

_NameFn = Callable[[list[int]], list[str]]
"""Names moves that follow each other."""


def describe(env: Environment, states: Any, evaluations: Evaluations) -> list[Row]:
    """Describes evaluations in what JSON can hold.

    Args:
      env: the game.
      states: the `[S]` positions, in NumPy arrays.
      evaluations: of them.

    Returns:
      A row each; docs/evaluate.md has its fields. What is no number is `None`.
    """
    rounded = Evaluations(*map(_round, evaluations))
    name_from = _namer(env, states)
    return [
        _describe_one(Evaluations(*(x[place] for x in rounded)), name_from(place))
        for place in range(len(rounded.action))
    ]


def _round(array: np.ndarray) -> np.ndarray:
    is_number = np.issubdtype(array.dtype, np.floating)
    # Adding 0 makes −0 a plain 0.
    return np.round(array.astype(np.float64), _DIGITS) + 0.0 if is_number else array


def _namer(env: Environment, states: Any) -> Callable[[int], _NameFn]:
    """Returns what names the moves from each position."""
    if not games.is_chess(env):
        # The same everywhere.
        names = [games.format_action(env, None, action) for action in range(env.num_actions)]
        return lambda place: lambda actions: [names[action] for action in actions]

    def name_from(place: int) -> _NameFn:
        start = games.to_position(env, jax.tree.map(lambda x: x[place], states))
        return lambda actions: games.format_moves(env, start, actions)

    return name_from


def _describe_one(found: Evaluations, name: _NameFn) -> Row:
    """Describes one position's evaluation."""
    action = int(found.action)
    return {
        "action": None if action < 0 else action,
        "move": None if action < 0 else name([action])[0],
        "value": _numbers(found.value[None])[0],
        "network_value": _numbers(found.network_value),
        "tree_values": _numbers(found.tree_values),
        "pv": name([x for x in found.principal_variation.tolist() if x >= 0]),
        "heads_agree": bool(found.heads_agree),
        "heads_distance": _numbers(found.heads_distance[None])[0],
        "legal": _describe_moves(found, name),
    }


def _describe_moves(found: Evaluations, name: _NameFn) -> list[Row]:
    legal = np.flatnonzero(found.legal_action_mask)
    visits = found.visits[legal].tolist() if found.tree_values.size else [None] * legal.size
    fields = {
        "action": legal.tolist(),
        "move": [name([action])[0] for action in legal.tolist()],
        "network_policy": [_numbers(x) for x in found.network_policy[:, legal].T],
        "weight": _numbers(found.action_weights[legal]),
        "visits": visits,
        "q": _numbers(found.qvalues[legal]),
    }
    return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]


def _numbers(array: np.ndarray) -> list[float | None]:
    """Lists numbers, `None` for what JSON has no number for."""
    return [x if math.isfinite(x) else None for x in array.tolist()]
