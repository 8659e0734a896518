"""Retrograde analysis: all positions of a finite game, and their values from the end backwards."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

from games.plain import Rules


@dataclasses.dataclass(frozen=True)
class Graph:
    """All reachable positions, breadth first, so that row 0 is the start.

    Attributes:
      positions: one a row.
      rows: the row of each position.
      children: for each row, from action to row; empty where the game is over.
      histories: for each row, the actions of a shortest game that leads there.
    """

    positions: list[Any]
    rows: dict[Any, int]
    children: list[dict[int, int]]
    histories: list[tuple[int, ...]]


def explore(rules: Rules) -> Graph:
    """Walks through the whole game, each position once.

    Args:
      rules: a game that ends.

    Returns:
      Its positions with their children and a shortest history for each.
    """
    start = rules.start()
    graph = Graph([start], {start: 0}, [], [()])
    for row, position in enumerate(graph.positions):  # grows while it is walked
        moves = {} if rules.result(position) is not None else rules.moves(position)
        for action, child in moves.items():
            if child not in graph.rows:
                graph.rows[child] = len(graph.positions)
                graph.positions.append(child)
                graph.histories.append((*graph.histories[row], action))
        graph.children.append({action: graph.rows[child] for action, child in moves.items()})
    return graph


def first_player_values(rules: Rules, graph: Graph) -> list[int]:
    """Works back from the ends: a position is settled when all its children are.

    Args:
      rules: the game.
      graph: all its positions.

    Returns:
      For each row -1, 0 or 1, player 0's result under perfect play.
    """
    parents = collections.defaultdict(list)
    for row, children in enumerate(graph.children):
        for child in children.values():
            parents[child].append(row)
    open_children = [len(children) for children in graph.children]
    values = [rules.result(position) or 0 for position in graph.positions]
    settled = [row for row, count in enumerate(open_children) if count == 0]
    for child in settled:  # grows while it is walked
        for row in parents[child]:
            open_children[row] -= 1
            if open_children[row] == 0:
                best = min if rules.mover(graph.positions[row]) else max
                values[row] = best(values[c] for c in graph.children[row].values())
                settled.append(row)
    return values


def reached(graph: Graph, allowed: Callable[[int, int], bool]) -> set[int]:
    """Returns the rows that can be reached by moves from `row` to `child` that are allowed."""
    order, seen = [0], {0}
    for row in order:  # grows while it is walked
        for child in graph.children[row].values():
            if child not in seen and allowed(row, child):
                seen.add(child)
                order.append(child)
    return seen
