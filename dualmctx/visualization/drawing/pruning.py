"""Chooses the nodes of a search tree that a drawing shows."""

import heapq
from typing import NamedTuple

from dualmctx.checks import check_count
from dualmctx.visualization.drawing.search_tree import SearchTree

_ROOT = 0


class Hidden(NamedTuple):
    """The nodes below a shown node that are not shown.

    Attributes:
      nodes: their number.
      visits: in each tree, the visits of those that are children of the shown node.
    """

    nodes: int
    visits: tuple[int, ...]


class Shown(NamedTuple):
    """The part of a tree that is shown.

    Attributes:
      nodes: the indices of the shown nodes, in ascending order; the root is the first.
      hidden: the hidden nodes below each shown node that has some, by its index.
    """

    nodes: list[int]
    hidden: dict[int, Hidden]


def prune(tree: SearchTree, max_nodes: int, max_depth: int | None = None) -> Shown:
    """Chooses the most visited nodes whose parents are shown too.

    The nodes are chosen one after the other: each time the one through which the most simulations
    of all trees passed (`Node.passes`, the visits without a window); of equal ones, that with the
    lowest index.

    Args:
      tree: a search tree.
      max_nodes: the largest number of nodes to show, at least 1.
      max_depth: the largest depth to show, at least 1; `None` for all depths.

    Raises:
      ValueError: if a number is out of range.
    """
    check_count("max_nodes", max_nodes, 1)
    check_count("max_depth", max_depth, 1, "for all depths")
    shown: set[int] = set()
    frontier = [(0, _ROOT)]
    while frontier and len(shown) < max_nodes:
        _, node = heapq.heappop(frontier)
        shown.add(node)
        if max_depth is None or tree.nodes[node].depth < max_depth:
            for child in tree.children[node]:
                heapq.heappush(frontier, (-sum(tree.nodes[child].passes), child))
    return Shown(sorted(shown), _find_hidden(tree, shown))


def _find_hidden(tree: SearchTree, shown: set[int]) -> dict[int, Hidden]:
    sizes = dict.fromkeys(tree.nodes, 1)
    for index in sorted(tree.nodes, reverse=True):  # children before their parents
        if index != _ROOT:
            sizes[tree.nodes[index].parent] += sizes[index]
    hidden: dict[int, Hidden] = {}
    for node in shown:
        missing = [child for child in tree.children[node] if child not in shown]
        if missing:
            visits = zip(*(tree.nodes[child].visits for child in missing), strict=True)
            number = sum(sizes[child] for child in missing)
            hidden[node] = Hidden(number, tuple(map(sum, visits)))
    return hidden
