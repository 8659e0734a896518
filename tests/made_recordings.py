"""Recordings that tests make by hand: large ones, and ones with hostile texts."""

import random
from typing import Any

ACTIONS = list(range(7))


def make_recording(simulations: int, name: str = "move {}") -> dict[str, Any]:
    """Returns a recording of AlphaZero in which each simulation adds a node at a random place.

    Args:
      simulations: the number of simulations.
      name: the name of a move, with a place for its number.
    """
    draws = random.Random(0)
    names = [name.format(action) for action in ACTIONS]
    nodes, steps = [_node(None, 0, names)], []
    visits, values, free = {0: 1}, {0: 0.0}, [0]
    while len(steps) < simulations:
        parent = nodes[draws.choice(free[-300:])]
        parent["used"] += 1
        if parent["used"] == len(ACTIONS):
            free.remove(parent["index"])
        node = _node(parent, len(nodes), names)
        nodes.append(node)
        free.append(node["index"])
        path = _path(nodes, node, visits, values)
        changes, value = [], draws.uniform(-1, 1)
        for index in reversed([*(row["node"] for row in path), node["index"]]):
            old = visits.get(index, 0), values.get(index, 0.0)
            visits[index] = old[0] + 1
            values[index] = (old[1] * old[0] + value) / visits[index]
            value = -value
            pairs = {"visits": [old[0], visits[index]], "value": [old[1], values[index]]}
            changes.append({"tree": 0, "node": index, **pairs, "in_window": None})
        steps.append(_simulation(len(steps), path, node, changes))
    return _recording(nodes, steps, simulations)


def _node(parent: dict[str, Any] | None, index: int, names: list[str]) -> dict[str, Any]:
    action = None if parent is None else ACTIONS[parent["used"] - 1]
    depth = 0 if parent is None else parent["depth"] + 1
    rows = [["x", "o", "."]]
    picture = {"caption": names[0], "rows": rows, "row_labels": [], "column_labels": names[:3]}
    return {
        "index": index,
        "parent": -1 if parent is None else parent["index"],
        "action": action,
        "move": None if action is None else names[action],
        "depth": depth,
        "side": depth % 2,
        "is_terminal": False,
        "reward": 0.0,
        "legal": ACTIONS,
        "names": names,
        "picture": picture | {"is_chess": False, "marked": []},
        "exact": None,
        "step": index - 1,
        "used": 0,
    }


def _path(nodes: Any, leaf: Any, visits: Any, values: Any) -> list[dict[str, Any]]:
    """Returns the choices from the root to a new leaf, without scores of the other moves."""
    rows = []
    child = leaf
    while child["parent"] >= 0:
        count = visits.get(child["index"], 0)
        q = -values.get(child["index"], 0.0)
        candidates = {"action": [child["action"]], "prior": [1 / 7], "visits": [count], "q": [q]}
        candidates |= {"addends": [[q], [0.5]], "score": [q + 0.5]}
        rows.insert(
            0,
            {
                "node": child["parent"],
                "child": None if child is leaf else child["index"],
                "action": child["action"],
                "chosen": child["action"],
                "reason": "rule",
                "parts": ["Q", "exploration"],
                "candidates": candidates,
                "omitted": 6,
            },
        )
        child = nodes[child["parent"]]
    return rows


def _simulation(number: int, path: Any, node: Any, changes: Any) -> dict[str, Any]:
    return {
        "kind": "simulation",
        "number": number,
        "round": 0,
        "tree": 0,
        "path": path,
        "leaf": {"node": node["index"], "is_new": True, "is_terminal": False},
        "evaluation": {"head": -1, "value": changes[0]["value"][1], "prior": [1 / 7] * 7},
        "changes": changes,
        "pending": 0,
        "blocks": 4 * (number + 1),
    }


def _recording(nodes: Any, steps: Any, simulations: int) -> dict[str, Any]:
    name = nodes[0]["names"][0]
    output = {"value": 0.0, "prior": [1 / 7] * 7}
    return {
        "format": "dualmctx-recording",
        "version": 1,
        "game": name,
        "moves": [],
        "variant": name,
        "network": name,
        "trees": ["tree"],
        "heads": [name],
        "tree_heads": [-1],
        "players": [name, name],
        "simulations": [simulations],
        "nodes": nodes,
        "steps": steps,
        "root": output
        | {"noisy_prior": [1 / 7] * 7, "heads": [output]}
        | {"trees": [{"visits": 1, "value": 0.0}]},
        "result": {"action": 0, "weights": [1 / 7] * 7, "value": 0.0},
        "comparison": None,
    }
