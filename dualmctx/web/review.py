"""Review of a game: the value of every position and the loss of every move, as JSON rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dualmctx.evaluation.evaluations import Evaluations, mark

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
      P dictionaries for JSON with the fields that docs/play-protocol.md describes; unknown
      numbers are None. The value of a move played is that of the next position by its own search,
      which has the whole budget, as Q of a rarely visited move has not. That of the best move is
      its Q, unless it was played.
    """
    pairs = zip(evaluations.value, evaluations.is_finite, strict=True)
    values = [_number(value) if is_finite else None for value, is_finite in pairs]
    rows = []
    for ply, side in enumerate(sides):
        is_over, best = not evaluations.legal_action_mask[ply].any(), int(evaluations.action[ply])
        row = {"ply": ply, "side": int(side), "is_over": is_over}
        row |= {"value_first": _turn(values[ply], side == 0)}
        row |= {"best": None if is_over else name(ply, best)}
        row |= _NOT_PLAYED
        if ply < len(actions):
            after = _turn(values[ply + 1], side == sides[ply + 1])
            qvalue = _number(evaluations.qvalues[ply, best])
            row |= _played(name(ply, int(actions[ply])), row["best"], values[ply], qvalue, after)
        row["exact"] = _exact(exact[ply], row["played"])
        row["mark"] = mark(row["loss"] if row["exact"] is None else row["exact"]["loss"])
        rows.append(row)
    return rows


_NOT_PLAYED = dict.fromkeys(("played", "played_value", "best_value", "loss"))


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _played(
    played: str,
    best: str | None,
    value: float | None,
    qvalue: float | None,
    after: float | None,
) -> dict[str, Any]:
    """Returns the move played, its value, and its loss against the best move."""
    best_value = value if qvalue is None or value is None else qvalue
    if played == best:
        best_value = after
    loss = None if after is None or best_value is None else max(0.0, best_value - after)
    return {"played": played, "played_value": after, "best_value": best_value, "loss": loss}


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
