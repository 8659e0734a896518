"""Converts evaluations to result rows, with moves in the notation of the game."""

from typing import Any, TypeVar

import numpy as np

import games
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.evaluation.fields import RESULT_FIELDS, Row
from dualmctx.types import Environment

X = TypeVar("X")
# Number of decimal places; further digits would only show rounding errors.
_DIGITS = 6
# The other fields of results are those of the question.
_FIELDS = RESULT_FIELDS[RESULT_FIELDS.index("action") :]


def to_rows(
    env: Environment, contexts: games.MoveContexts | None, evaluations: Evaluations
) -> list[Row]:
    """Converts evaluations to rows of JSON values, with array operations over all positions.

    Args:
      env: the game.
      contexts: the `games.move_contexts` of the `[S]` positions.
      evaluations: evaluations of the positions, as NumPy arrays.

    Returns:
      One row per position; docs/evaluate.md describes the fields. NaN and infinity become `None`.
    """
    x = evaluations
    has_move = x.action >= 0
    lines = games.format_lines(env, contexts, x.principal_variation)
    columns = (
        _with_none(x.action, has_move),
        [line[0] if line else None for line in lines],
        _numbers(x.value),
        _numbers(x.network_value),
        _numbers(x.tree_values),
        lines,
        x.heads_agree.tolist(),
        _numbers(x.heads_distance),
        _to_move_rows(env, contexts, x),
    )
    return [dict(zip(_FIELDS, row, strict=True)) for row in zip(*columns, strict=True)]


def _to_move_rows(
    env: Environment, contexts: games.MoveContexts | None, x: Evaluations
) -> list[list[Row]]:
    """Returns the rows of the legal moves of each position."""
    rows, actions = np.nonzero(x.legal_action_mask)
    visits = x.visits[rows, actions]
    columns = (
        actions.tolist(),
        games.format_actions(env, contexts, rows, actions),
        _numbers(x.network_policy[rows, :, actions]),
        _numbers(x.action_weights[rows, actions]),
        visits.tolist() if x.tree_values.size else [None] * len(visits),
        _numbers(x.qvalues[rows, actions]),
    )
    moves = [
        {
            "action": action,
            "move": move,
            "network_policy": policy,
            "weight": weight,
            "visits": visits,
            "q": q,
        }
        for action, move, policy, weight, visits, q in zip(*columns, strict=True)
    ]
    return _split(moves, np.sum(x.legal_action_mask, axis=1))


def _split(items: list[X], lengths: np.ndarray) -> list[list[X]]:
    """Splits a list into lists of the given lengths."""
    ends = np.cumsum(lengths)
    pairs = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    return [items[begin:end] for begin, end in pairs]


def _numbers(array: np.ndarray) -> list[Any]:
    """Rounds numbers and converts them to nested lists."""
    # Adding 0 converts -0 to 0.
    rounded = np.round(array.astype(np.float64), _DIGITS) + 0.0
    return _with_none(rounded, np.isfinite(rounded))


def _with_none(array: np.ndarray, is_present: np.ndarray) -> list[Any]:
    """Converts an array to nested lists, with `None` for absent elements."""
    if is_present.all():
        return array.tolist()
    values = array.astype(object)
    values[~is_present] = None
    return values.tolist()
