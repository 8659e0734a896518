"""Converts the simulations and refinements of a search to steps of a recording, in JSON types."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from dualmctx.search.node import Scores
from dualmctx.visualization.node_records import TreeMirror
from dualmctx.visualization.programs import Explanation, Refined, View

MAX_CANDIDATES = 32
"""The largest number of actions that a recording lists for one choice."""
# The largest number of nodes that a refinement lists beside those that it evaluates.
_MAX_WAITING = 16


class Prior(NamedTuple):
    """A prior whose place in the recording is known before the legal actions of its node.

    Attributes:
      record: the object of the recording that gets a field `prior`.
      slot: the slot of the node.
      row: `[C]` probabilities of the action slots.
    """

    record: dict[str, Any]
    slot: int
    row: np.ndarray


class Simulated(NamedTuple):
    """A simulation, on the host.

    Attributes:
      tree_index: the tree that grew.
      round: the round, from 0.
      number: the number of the simulation in its tree, from 0.
      nodes: the nodes of the path from the root, without the last one.
      slots: the action slots of the edges of the path, one for each of these nodes.
      choices: the explanation of the choice at each of these nodes.
      child: the node at the end of the path; the slot of a new node.
      is_new: whether the simulation created it.
      prior: `[C]` the prior of the node, used only if it is new.
    """

    tree_index: int
    round: int
    number: int
    nodes: list[int]
    slots: list[int]
    choices: list[Explanation]
    child: int
    is_new: bool
    prior: np.ndarray


class StepRecorder:
    """Converts the parts of an unrolled search to steps and adds up their cost.

    Attributes:
      steps: the steps so far.
      priors: the priors that the caller has to add.
    """

    def __init__(
        self, mirror: TreeMirror, heads: tuple[int, ...], blocks: tuple[int, ...] | None
    ) -> None:
        """Takes the trees, the head of each tree, and the blocks of an evaluation by each head."""
        self._mirror, self._heads, self._blocks = mirror, heads, blocks
        self._spent = 0
        self.steps: list[dict[str, Any]] = []
        self.priors: list[Prior] = []

    def add_simulations(self, events: Sequence[Simulated], view: View) -> None:
        """Adds the simulations of a step, which are of one tree; `view` has the trees after it."""
        last = len(events) - 1
        records = [self._describe_simulation(x, last - i) for i, x in enumerate(events)]
        slots = {slot for event in events for slot in (*event.nodes, event.child)}
        records[-1]["changes"] = self._mirror.update(view, events[0].tree_index, slots)
        for record, event in zip(records, events, strict=True):
            self._finish(record, event)

    def _describe_simulation(self, event: Simulated, pending: int) -> dict[str, Any]:
        """Adds a step without the results of its evaluation and backup."""
        mirror, tree_index = self._mirror, event.tree_index
        path = self._describe_path(event)
        if event.is_new:
            mirror.add(event.child, event.nodes[-1], event.slots[-1], len(self.steps))
            self._spend(range(tree_index + 1), 1)
        record = {
            "kind": "simulation",
            "number": event.number,
            "round": event.round,
            "tree": tree_index,
            "path": path,
            "leaf": {"node": mirror.index[event.child], "is_new": event.is_new},
            "evaluation": None,
            "changes": [],
            "pending": pending,
            "blocks": self._cost(),
        }
        self.steps.append(record)
        return record

    def _describe_path(self, event: Simulated) -> list[dict[str, Any]]:
        ends = [*event.nodes[1:], None if event.is_new else event.child]
        rows = zip(event.nodes, ends, event.slots, event.choices, strict=True)
        return [
            {
                "node": self._mirror.index[node],
                "child": None if end is None else self._mirror.index[end],
                **describe_choice(choice, slot),
            }
            for node, end, slot, choice in rows
        ]

    def _finish(self, record: dict[str, Any], event: Simulated) -> None:
        """Adds to a simulation the results of the evaluation of its leaf."""
        is_terminal = self._mirror.is_terminal(event.child)
        record["leaf"]["is_terminal"] = is_terminal
        if not event.is_new or is_terminal:
            return
        value = float(self._mirror.view.raw_values[event.child])
        record["evaluation"] = {"head": self._heads[event.tree_index], "value": value}
        self.priors.append(Prior(record["evaluation"], event.child, event.prior))

    def add_refinement(
        self, tree_index: int, round_number: int, number: int, refined: Refined, view: View
    ) -> None:
        """Adds a refinement."""
        mirror, places = self._mirror, np.flatnonzero(refined.is_valid).tolist()
        # All read the trees before the refinement.
        later = range(tree_index + 1, len(view.node_stats))
        is_known = [any(mirror.visits(i, refined.leaves[x]) for i in later) for x in places]
        slots = refined.frontier[refined.is_waiting][: len(places) + _MAX_WAITING].tolist()
        candidates = [
            {
                "node": mirror.index[slot],
                "passes": mirror.passes(tree_index - 1, slot),
                "chosen": place < len(places),
            }
            for place, slot in enumerate(slots)
        ]
        self._spend([tree_index], is_known.count(False))
        self.steps.append(
            {
                "kind": "refinement",
                "number": number,
                "round": round_number,
                "tree": tree_index,
                "head": self._heads[tree_index],
                "candidates": candidates,
                "num_waiting": int(np.sum(refined.is_waiting)),
                "nodes": [self._describe_node(refined, place) for place in places],
                "changes": mirror.update(view, tree_index),
                "blocks": self._cost(),
            }
        )

    def _describe_node(self, refined: Refined, place: int) -> dict[str, Any]:
        slot = int(refined.leaves[place])
        record: dict[str, Any] = {"node": self._mirror.index[slot]}
        for name, values, priors in zip(
            ("before", "head", "after"), refined.values, refined.priors, strict=True
        ):
            record[name] = {"value": float(values[place])}
            self.priors.append(Prior(record[name], slot, priors[place]))
        before, head, _ = (np.asarray(priors[place], np.float64) for priors in refined.priors)
        record["distance"] = float(np.sum(np.abs(before - head)) / 2)
        return record

    def _spend(self, trees: Any, number: int) -> None:
        """Adds the blocks of a number of nodes, each evaluated by the heads of some trees."""
        if self._blocks is not None:
            self._spent += number * sum(self._blocks[i] for i in trees)

    def _cost(self) -> int | None:
        return None if self._blocks is None else self._spent


def describe_choice(choice: Explanation, slot: int) -> dict[str, Any]:
    """Returns the fields of the choice of an action slot in a recording; see docs/recordings.md."""
    reasons = choice.reasons
    scores: Scores | None = reasons.get("scores")
    listed = _listed(choice, scores, slot)
    action = int(choice.actions[slot])
    record: dict[str, Any] = {
        "action": action,
        "reason": _reason(reasons),
        "parts": [] if scores is None else list(scores.names),
        "candidates": _candidates(choice, scores, listed),
        "omitted": int(np.sum(choice.legal)) - len(listed),
        "chosen": action,
    }
    if "required_visits" in reasons:
        record["required_visits"] = int(reasons["required_visits"])
    return record


def _reason(reasons: dict[str, Any]) -> str:
    """Returns which rule chose; the outermost one decides."""
    if reasons.get("explores"):
        return "explore"
    if reasons.get("is_frozen"):
        return "frozen"
    return "root" if "required_visits" in reasons else "rule"


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
    if "frozen" in choice.reasons and choice.reasons["is_frozen"]:
        columns["frozen_visits"] = choice.reasons["frozen"][listed].tolist()
    return columns


def _shortest(numbers: Any) -> list[float | None]:
    """Returns float32 numbers as the shortest decimals that round to them.

    Numbers that JSON cannot hold become `None`.
    """
    exact = np.asarray(numbers).astype(np.promote_types(numbers.dtype, np.float32))
    return orjson.loads(orjson.dumps(exact, option=orjson.OPT_SERIALIZE_NUMPY))
