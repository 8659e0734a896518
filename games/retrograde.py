"""Retrograde analysis: enumerates the positions of a finite game and computes their values."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

from dualmctx.errors import UserError
from games.plain import Rules


@dataclasses.dataclass(frozen=True)
class Graph:
    """All reachable positions in breadth-first order; row 0 is the initial position.

    Attributes:
      positions: one position per row.
      rows: the row of each position.
      children: for each row, a map from action to row; empty if the game is over.
      histories: for each row, the actions of a shortest game that leads to it.
    """

    positions: list[Any]
    rows: dict[Any, int]
    children: list[dict[int, int]]
    histories: list[tuple[int, ...]]


def explore(rules: Rules) -> Graph:
    """Enumerates the reachable positions of a game.

    Args:
      rules: a finite game.

    Returns:
      The positions, with their children and a shortest history of each.
    """
    start = rules.start()
    graph = Graph([start], {start: 0}, [], [()])
    for row, position in enumerate(graph.positions):  # the list grows during the loop
        moves = {} if rules.result(position) is not None else rules.moves(position)
        for action, child in moves.items():
            if child not in graph.rows:
                graph.rows[child] = len(graph.positions)
                graph.positions.append(child)
                graph.histories.append((*graph.histories[row], action))
        graph.children.append({action: graph.rows[child] for action, child in moves.items()})
    return graph


def first_player_values(rules: Rules, graph: Graph) -> list[int]:
    """Computes values backwards from the final positions.

    The value of a position is known as soon as the values of all its children are known.

    Args:
      rules: the game.
      graph: all its positions.

    Returns:
      For each row, the result for player 0 under perfect play: -1, 0 or 1.

    Raises:
      ValueError: if a position can occur twice in a game, so that its value is not known.
    """
    parents = collections.defaultdict(list)
    for row, children in enumerate(graph.children):
        for child in children.values():
            parents[child].append(row)
    open_children = [len(children) for children in graph.children]
    values = [rules.result(position) or 0 for position in graph.positions]
    settled = [row for row, count in enumerate(open_children) if count == 0]
    for child in settled:  # the list grows during the loop
        for row in parents[child]:
            open_children[row] -= 1
            if open_children[row] == 0:
                best = min if rules.mover(graph.positions[row]) else max
                values[row] = best(values[c] for c in graph.children[row].values())
                settled.append(row)
    if len(settled) < len(values):
        raise UserError(
            "positions repeat within a game, so it cannot be solved: count the plies in "
            "position_code and in the observation, or remove position_code"
        )
    return values


def reachable_rows(graph: Graph, allowed: Callable[[int, int], bool]) -> set[int]:
    """Returns the rows that can be reached by edges for which `allowed(row, child)` is true."""
    order, seen = [0], {0}
    for row in order:  # the list grows during the loop
        for child in graph.children[row].values():
            if child not in seen and allowed(row, child):
                seen.add(child)
                order.append(child)
    return seen
