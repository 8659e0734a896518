"""The nodes of a recording: their states, moves, pictures and exact values, in JSON types."""

from typing import Any

import jax
import numpy as np

import games
from dualmctx.types import Environment
from games.pictures import Picture, mark_last_move, picture


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
    # The drawing of a game from outside the package may fail in any way.
    except Exception:
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
