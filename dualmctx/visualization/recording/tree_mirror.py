"""The trees of a recorded search on the host, and the changes that each step makes to them."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from dualmctx.search.tree import Tree
from dualmctx.visualization.recording.search_parts import View


class TreeMirror:
    """The nodes of the trees in the order of their creation, and the numbers of the last step.

    A recording numbers nodes from 0 without gaps; the slots of the engine may have gaps.
    """

    def __init__(self, view: View, num_actions: int, *, has_window: bool) -> None:
        """Takes the trees before the first step, which hold the root alone."""
        self._num_actions, self._has_window = num_actions, has_window
        self._view = view
        root = Tree.ROOT_INDEX
        self.index: dict[int, int] = {root: 0}
        self.nodes: list[dict[str, Any]] = [
            {"index": 0, "slot": root, "parent": -1, "edge": None, "depth": 0, "reward": 0.0}
            | {"is_terminal": False, "step": -1}
        ]

    @property
    def view(self) -> View:
        """The numbers after the last step."""
        return self._view

    def add(self, slot: int, parent: int, edge: int, step: int) -> None:
        """Adds a new node below a parent, both by their slots; `edge` is the action slot."""
        above = self.nodes[self.index[parent]]
        self.index[slot] = len(self.nodes)
        # The reward and the end of the game are known after the step.
        self.nodes.append(
            {"index": len(self.nodes), "slot": slot, "parent": above["index"], "edge": edge}
            | {"depth": above["depth"] + 1, "reward": 0.0, "is_terminal": False, "step": step}
        )

    def visits(self, tree_index: int, slot: int) -> int:
        """Returns the visits of a node in a tree."""
        return int(self._view.node_stats[tree_index][slot, 0])

    def passes(self, tree_index: int, slot: int) -> int:
        """Returns the simulations of a tree that passed through a node or ended there."""
        passes = self._view.path_visits[tree_index]
        return self.visits(tree_index, slot) if passes is None else int(passes[slot])

    def is_terminal(self, slot: int) -> bool:
        """Returns whether the game is over at a node."""
        return slot != Tree.ROOT_INDEX and float(self._view.transitions[slot, 1]) == 0

    def value(self, slot: int) -> float:
        """Returns the value of a node without search."""
        return float(self._view.raw_values[slot])

    def update(self, view: View, tree_index: int, path: Iterable[int] = ()) -> list[dict[str, Any]]:
        """Takes the trees after a step and returns the changes.

        Args:
          view: the trees after the step.
          tree_index: the tree that grew or evaluated nodes.
          path: the slots of a simulation, which are listed even if a window excludes them.

        Returns:
          The changes of a recording, tree by tree, from the leaves to the root.
        """
        old, self._view = self._view, view
        # The value of a new node is not a change.
        is_revalued = _differs(old.raw_values, view.raw_values) & (old.edges == view.edges)
        changes: list[dict[str, Any]] = []
        for number, (before, after) in enumerate(zip(old.node_stats, view.node_stats, strict=True)):
            changed = set(np.flatnonzero(_differs(before, after).any(axis=-1)).tolist())
            is_own = number == tree_index
            slots = changed | set(path if is_own else ())
            for slot in sorted(slots, key=lambda x: (-self.nodes[self.index[x]]["depth"], x)):
                change = _change(number, self.index[slot], before[slot], after[slot])
                if is_own and is_revalued[slot]:
                    values = old.raw_values[slot], view.raw_values[slot]
                    change["raw_value"] = [float(x) for x in values]
                change["in_window"] = slot in changed if self._has_window else None
                changes.append(change)
        return changes

    def end(self) -> list[dict[str, Any]]:
        """Returns the nodes with their rewards."""
        for node in self.nodes[1:]:
            slot = node["slot"]
            node["reward"] = float(self._view.transitions[slot, 0])
            node["is_terminal"] = self.is_terminal(slot)
        return self.nodes


def _differs(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Returns where arrays of floats differ, by their bits, because NaN differs from itself."""
    bits = np.dtype(f"u{before.dtype.itemsize}")
    return before.view(bits) != after.view(bits)


def _change(tree: int, node: int, before: np.ndarray, after: np.ndarray) -> dict[str, Any]:
    return {
        "tree": tree,
        "node": node,
        "visits": [int(before[0]), int(after[0])],
        "value": [float(before[1]), float(after[1])],
    }
