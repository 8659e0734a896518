"""The nodes of a recording, in JSON types: their numbers step by step, and their positions."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.search.tree import Tree
from dualmctx.types import Environment
from dualmctx.visualization.programs import View
from games.pictures import Picture, mark_last_move, picture


class TreeMirror:
    """The nodes of the trees in the order of their creation, and the numbers of the last step.

    A recording numbers nodes from 0 without gaps; the slots of the engine may have gaps.

    Attributes:
      view: the numbers after the last step.
      index: the index of each slot in the recording.
      nodes: the nodes by their index.
    """

    def __init__(self, view: View, num_actions: int, *, has_window: bool) -> None:
        """Takes the trees before the first step, which hold the root alone."""
        self._num_actions, self._has_window = num_actions, has_window
        self.view = view
        root = Tree.ROOT_INDEX
        self.index: dict[int, int] = {root: 0}
        self.nodes: list[dict[str, Any]] = [
            {"index": 0, "slot": root, "parent": -1, "edge": None, "depth": 0, "reward": 0.0}
            | {"is_terminal": False, "step": -1}
        ]

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
        return int(self.view.node_stats[tree_index][slot, 0])

    def passes(self, tree_index: int, slot: int) -> int:
        """Returns the simulations of a tree that passed through a node or ended there."""
        passes = self.view.path_visits[tree_index]
        return self.visits(tree_index, slot) if passes is None else int(passes[slot])

    def is_terminal(self, slot: int) -> bool:
        """Returns whether the game is over at a node."""
        return slot != Tree.ROOT_INDEX and float(self.view.transitions[slot, 1]) == 0

    def update(self, view: View, tree_index: int, path: Iterable[int] = ()) -> list[dict[str, Any]]:
        """Takes the trees after a step and returns the changes.

        Args:
          view: the trees after the step.
          tree_index: the tree that grew or evaluated nodes.
          path: the slots of a simulation, which are listed even if a window excludes them.

        Returns:
          The changes of a recording, tree by tree, from the leaves to the root.
        """
        old, self.view = self.view, view
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
            node["reward"] = float(self.view.transitions[slot, 0])
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


def describe_nodes(
    env: Environment,
    nodes: list[dict[str, Any]],
    states: Any,
    actions: np.ndarray | None,
    side: int,
    before: Any = None,
) -> None:
    """Adds to each node its move, side, legal actions, their names, picture and exact value.

    Args:
      env: the game.
      nodes: the nodes of a `TreeMirror`, which this function changes.
      states: `[N, ...]` states by slot, on the host.
      actions: `[N, C]` the actions of action slots; `None` if slots are actions.
      side: the side to move at the root, 0 or 1.
      before: the state before the root's last move, to mark that move; `None` for no mark.
    """
    exact = _exact_values(env, states)
    slots = np.array([node["slot"] for node in nodes])
    states = jax.tree.map(lambda x: x[slots], states)
    legal = _legal_actions(nodes, states)
    names = _names(env, states, legal)
    pictures = _pictures(nodes, states, before)
    for i, node in enumerate(nodes):
        parent = None if node["parent"] < 0 else nodes[node["parent"]]
        edge = node.pop("edge")
        action = None if parent is None else edge
        if parent is not None and actions is not None:
            action = int(actions[parent["slot"], edge])
        is_same = states.current_player[i] == states.current_player[0]
        node |= {
            "action": action,
            "move": None if parent is None else _name_of(action, parent),
            "side": side if is_same else 1 - side,
            "legal": legal[i],
            "names": names[i],
            "picture": pictures[i],
            "exact": None if exact is None else float(exact[node["slot"]]),
        }


def _name_of(action: Any, parent: dict[str, Any]) -> str:
    return parent["names"][parent["legal"].index(action)]


def _legal_actions(nodes: list[dict[str, Any]], states: Any) -> list[list[int]]:
    """Returns the legal actions of each node; none where the game is over."""
    masks = np.asarray(states.legal_action_mask)
    return [
        [] if node["is_terminal"] else np.flatnonzero(mask).tolist()
        for node, mask in zip(nodes, masks, strict=True)
    ]


def _names(env: Environment, states: Any, legal: list[list[int]]) -> list[list[str]]:
    """Returns the names of the legal actions of each state."""
    lengths = [len(actions) for actions in legal]
    rows = np.repeat(np.arange(len(legal)), lengths)
    flat = np.array([action for actions in legal for action in actions], np.int64)
    texts = games.format_actions(env, games.move_contexts(env, states), rows, flat)
    ends = np.cumsum(lengths).tolist()
    return [texts[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _pictures(nodes: list[dict[str, Any]], states: Any, before: Any) -> list[dict[str, Any] | None]:
    """Returns the picture of each node in JSON types; `None` if it cannot be drawn."""
    drawn = [_draw(jax.tree.map(lambda x, i=i: x[i], states)) for i in range(len(nodes))]
    above = [drawn[node["parent"]] if node["parent"] >= 0 else _draw(before) for node in nodes]
    return [
        None if after is None else mark_last_move(after, earlier).to_dict()
        for after, earlier in zip(drawn, above, strict=True)
    ]


def _draw(state: Any) -> Picture | None:
    """Returns the picture of a state; `None` if there is none."""
    if state is None:
        return None
    try:
        return picture(state)
    except UserError:
        return None


def _exact_values(env: Any, states: Any) -> np.ndarray | None:
    """Returns `[N]` values of the states for the player to move; `None` without a solver."""
    if not games.is_solvable(env):
        return None
    solution = games.solve(env)
    codes = np.asarray(jax.jit(jax.vmap(solution.code_fn))(states))
    last = len(solution.code_values) - 1
    # Slots without a node have no meaning, and so has their code.
    return solution.code_values[np.clip(codes, 0, last)]
