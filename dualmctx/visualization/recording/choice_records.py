"""The choice of a selection rule at one node, in JSON types."""

from typing import Any

import numpy as np

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
        "candidates": [_candidate(choice, scores, i) for i in listed],
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


def _candidate(choice: Explanation, scores: Scores | None, slot: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "action": int(choice.actions[slot]),
        "prior": float(choice.prior[slot]),
        "visits": int(choice.visits[slot]),
        "q": float(choice.qvalues[slot]),
        "addends": [],
        "score": None,
    }
    if scores is not None:
        found["addends"] = [_finite(x[slot]) for x in scores.addends]
        found["score"] = _finite(scores.score[slot])
    if "frozen" in choice.reports and choice.reports["samples"]:
        found["frozen_visits"] = int(choice.reports["frozen"][slot])
    return found


def _finite(number: Any) -> float | None:
    """Returns a number that JSON can hold."""
    return float(number) if np.isfinite(number) else None
