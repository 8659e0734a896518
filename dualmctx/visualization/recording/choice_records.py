"""The choice of a selection rule at one node, in JSON types."""

from typing import Any

import numpy as np
import orjson

from dualmctx.search.reports import Scores
from dualmctx.visualization.recording.explain import Explanation

MAX_CANDIDATES = 32
"""The largest number of actions that a recording lists for one choice."""


def describe_choice(choice: Explanation, slot: int) -> dict[str, Any]:
    """Returns the fields of a choice in a recording; see docs/recordings.md.

    Args:
      choice: the explanation of the rule at one node, without the axis L.
      slot: the action slot that the search chose.
    """
    reports = choice.reports
    scores: Scores | None = reports.get("scores")
    listed = _listed(choice, scores, slot)
    action = int(choice.actions[slot])
    record: dict[str, Any] = {
        "action": action,
        "reason": _reason(reports),
        "parts": [] if scores is None else list(scores.names),
        "candidates": _candidates(choice, scores, listed),
        "omitted": int(np.sum(choice.legal)) - len(listed),
        "chosen": action,
    }
    if "required_visits" in reports:
        record["required_visits"] = int(reports["required_visits"])
    return record


def _reason(reports: dict[str, Any]) -> str:
    """Returns which rule chose; the outermost one decides."""
    if reports.get("explores"):
        return "explore"
    if reports.get("samples"):
        return "frozen"
    return "root" if "required_visits" in reports else "rule"


def _listed(choice: Explanation, scores: Scores | None, slot: int) -> list[int]:
    """Returns the slots to list, ascending: all legal ones, or those with the largest scores."""
    legal = np.flatnonzero(choice.legal)
    if len(legal) > MAX_CANDIDATES:
        rank = choice.visits + choice.prior if scores is None else scores.score
        order = np.lexsort((-choice.visits[legal], -rank[legal], legal != slot))
        legal = np.sort(legal[order[:MAX_CANDIDATES]])
    return legal.tolist()


def _candidates(
    choice: Explanation, scores: Scores | None, listed: list[int]
) -> dict[str, list[Any]]:
    """Returns the numbers of the listed slots by columns."""
    columns: dict[str, list[Any]] = {
        "action": choice.actions[listed].tolist(),
        "prior": _shortest(choice.prior[listed]),
        "visits": choice.visits[listed].tolist(),
        "q": _shortest(choice.qvalues[listed]),
        "addends": [] if scores is None else [_shortest(x[listed]) for x in scores.addends],
        "score": [None] * len(listed) if scores is None else _shortest(scores.score[listed]),
    }
    if "frozen" in choice.reports and choice.reports["samples"]:
        columns["frozen_visits"] = choice.reports["frozen"][listed].tolist()
    return columns


def _shortest(numbers: Any) -> list[float | None]:
    """Returns float32 numbers as the shortest decimals that round to them.

    Numbers that JSON cannot hold become `None`.
    """
    exact = np.asarray(numbers).astype(np.promote_types(numbers.dtype, np.float32))
    return orjson.loads(orjson.dumps(exact, option=orjson.OPT_SERIALIZE_NUMPY))
