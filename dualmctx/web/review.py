"""Review of a game: the value of every position and the loss of every move, as JSON rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dualmctx.evaluation.evaluations import Evaluations

MARKS = (("blunder", 0.4), ("mistake", 0.2), ("inaccuracy", 0.1))
"""Marks and the least loss of value that earns each, from the largest loss down.

Values are expected results in [-1, 1], so a loss of 1 turns a win into a draw, and a loss of 0.4 is
a fifth of the way from a certain win to a certain loss. These are the limits of chess.com's
classification of moves: 0.2, 0.1 and 0.05 of an expected score in [0, 1]. The page
shows the marks as ??, ? and ?!.
"""

Exact = Mapping[str, Any]
"""Exact values of a position, as in the message `exact`: `value` and `moves` by name.

Both are -1, 0 or 1 in the view of the player to move; `value` is None if it is unknown.
"""


def make_rows(
    evaluations: Evaluations,
    sides: Sequence[int],
    actions: Sequence[int],
    name: Callable[[int, int], str],
    exact: Sequence[Exact | None],
) -> list[dict[str, Any]]:
    """Returns one row per position of a game, for the message `reviewed`.

    Args:
      evaluations: of the P positions of the game in order, from the start to the last position, as
        NumPy arrays. A position in which the game is over has its result as value.
      sides: P integers, the side to move: 0 for the side that begins, 1 for the other. It is the
        side of `current_player`, also in a position in which the game is over.
      actions: the P - 1 actions played.
      name: `(ply, action) -> name` of a legal action in position `ply`.
      exact: P exact values, None where they are unknown.

    Returns:
      P dictionaries for JSON, in which unknown numbers are None:
        ply: index of the position, from 0.
        side: side to move.
        is_over: whether the game is over.
        value_first: value of the search (of the result, if the game is over) in [-1, 1], in the
          view of the first side.
        wdl: probabilities of a win, a draw and a loss of the first side, only where they are
          certain: the game is over or the exact value is known. The network has one value and no
          rate of draws, so None elsewhere.
        best, best_action: the move that the search selects; None if the game is over.
        played, played_action: the move played; None for the last position.
        best_value: Q of the best move, in the view of the side to move. If the best move was
          played, it is `played_value`.
        played_value: value of the next position by its own search, in the view of the side that
          moved. This estimate has the whole budget, which Q of a rarely visited move has not.
        loss: `best_value - played_value`, at least 0.
        mark: "inaccuracy", "mistake", "blunder" or None, by `MARKS` from the exact loss where it is
          known, and otherwise from `loss`.
        exact: None or a dictionary: value, played_value, loss (in the view of the side to move) and
          best, the names of all moves that keep the value.
    """
    values = _values(evaluations)
    rows = []
    for ply, side in enumerate(sides):
        row = _position(evaluations, values, ply, side, name)
        row |= _played(evaluations, values, ply, sides, actions, name)
        row["exact"] = _exact(exact[ply], row["played"])
        row["wdl"] = _wdl(row)
        row["mark"] = mark(row["loss"] if row["exact"] is None else row["exact"]["loss"])
        rows.append(row)
    return rows


def mark(loss: float | None) -> str | None:
    """Returns the mark of a move that loses `loss` of its value; None below all thresholds."""
    if loss is None:
        return None
    return next((text for text, least in MARKS if loss >= least), None)


def _values(evaluations: Evaluations) -> list[float | None]:
    """Returns the value of each position for its side to move; None if it is not finite."""
    pairs = zip(evaluations.value, evaluations.is_finite, strict=True)
    return [_number(value) if is_finite else None for value, is_finite in pairs]


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _position(
    evaluations: Evaluations,
    values: Sequence[float | None],
    ply: int,
    side: int,
    name: Callable[[int, int], str],
) -> dict[str, Any]:
    """Returns the fields of a row that need no move played."""
    value, best = values[ply], int(evaluations.action[ply])
    is_over = not np.any(evaluations.legal_action_mask[ply])
    return {
        "ply": ply,
        "side": int(side),
        "is_over": is_over,
        "value_first": _turn(value, side == 0),
        "best": None if is_over else name(ply, best),
        "best_action": None if is_over else best,
    }


def _played(
    evaluations: Evaluations,
    values: Sequence[float | None],
    ply: int,
    sides: Sequence[int],
    actions: Sequence[int],
    name: Callable[[int, int], str],
) -> dict[str, Any]:
    """Returns the move played in a position, its value, and its loss against the best move."""
    fields = ("played", "played_action", "played_value", "best_value", "loss")
    if ply == len(actions):
        return dict.fromkeys(fields, None)
    action, best = int(actions[ply]), int(evaluations.action[ply])
    played_value = _turn(values[ply + 1], sides[ply] == sides[ply + 1])
    qvalue = _number(evaluations.qvalues[ply, best])
    best_value = values[ply] if qvalue is None or values[ply] is None else qvalue
    if action == best:
        best_value = played_value
    loss = None
    if played_value is not None and best_value is not None:
        loss = max(0.0, best_value - played_value)
    return dict(
        zip(fields, (name(ply, action), action, played_value, best_value, loss), strict=True)
    )


def _turn(value: float | None, is_same_side: bool) -> float | None:
    """Returns a value in the view of the same or of the other side; never -0."""
    return None if value is None else (value if is_same_side else -value) + 0.0


def _exact(known: Exact | None, played: str | None) -> dict[str, Any] | None:
    """Returns the exact fields of a row."""
    if known is None or known["value"] is None:
        return None
    value, moves = known["value"], known["moves"]
    played_value = moves.get(played)
    return {
        "value": value,
        "played_value": played_value,
        "loss": None if played_value is None else value - played_value,
        "best": [move for move, its_value in moves.items() if its_value == value],
    }


def _wdl(row: Mapping[str, Any]) -> list[float] | None:
    """Returns the certain probabilities of a win, a draw and a loss of the first side."""
    value = row["value_first"] if row["is_over"] else None
    if row["exact"] is not None:
        value = _turn(row["exact"]["value"], row["side"] == 0)
    if value is None:
        return None
    return [float(value > 0), float(value == 0), float(value < 0)]
