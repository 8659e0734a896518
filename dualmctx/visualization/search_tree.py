"""Reads one finished search tree of any variant, and chooses the nodes that a drawing shows."""

import dataclasses
import heapq
from typing import Any, NamedTuple

import jax
import numpy as np

from dualmctx.checks import check, check_count, is_whole
from dualmctx.errors import UserError
from dualmctx.policies import tree_names
from dualmctx.search.slots import has_slots, played_actions
from dualmctx.search.tree import Tree, is_unmasked
from dualmctx.types import Embedding

_ROOT = Tree.ROOT_INDEX


class Node(NamedTuple):
    """A node of a search tree. Tuples have one entry for each of the trees over the nodes.

    Attributes:
      index: the index of the node in the arrays of the tree; 0 for the root.
      parent: the index of its parent; -1 for the root.
      action: the game's action that leads to the node; -1 for the root.
      depth: the number of moves from the root.
      prior: the probability of that action at the parent, in [0, 1]; `None` for the root.
      is_terminal: whether the game is over at the node.
      raw_value: the value of the state without search, from the view of the player to move there.
      visits: visits of the node in each tree; 0 if the tree does not have the node.
      passes: simulations of each tree that passed through the node or ended there; not limited by a
        window of the backup, unlike the visits.
      values: the mean of the returns in each tree, from the view of the player to move at the node;
        `None` if the tree does not have the node.
      qvalues: Q of the move in each tree, from the view of the player who made it; `None` for the
        root, and if the tree does not have the node.
    """

    index: int
    parent: int
    action: int
    depth: int
    prior: float | None
    is_terminal: bool
    raw_value: float
    visits: tuple[int, ...]
    passes: tuple[int, ...]
    values: tuple[float | None, ...]
    qvalues: tuple[float | None, ...]


class SearchTree(NamedTuple):
    """One element of a batch of search trees.

    Attributes:
      names: the name of each of the trees over the nodes.
      nodes: the nodes by their index; parents come before their children.
      children: for each node the indices of its children, by ascending actions.
    """

    names: tuple[str, ...]
    nodes: dict[int, Node]
    children: dict[int, list[int]]

    def path(self, index: int) -> list[int]:
        """Returns the actions that lead from the root to a node."""
        actions: list[int] = []
        while index > _ROOT:
            actions.append(self.nodes[index].action)
            index = self.nodes[index].parent
        return actions[::-1]

    def below(self, index: int) -> list[int]:
        """Returns all nodes below a node."""
        found = list(self.children[index])
        for node in found:  # grows meanwhile
            found += self.children[node]
        return found


def read_tree(tree: Any, index: int = 0) -> SearchTree:
    """Copies one element of a batch of trees to the host.

    Args:
      tree: `output.search_tree` of any variant, with B elements.
      index: the element, from 0 to B - 1.

    Raises:
      ValueError: if `tree` is not a batch of trees, the element does not exist, or it has no
        node because nothing was searched.
    """
    _check(tree, index)
    actions = tree.embeddings.actions if has_slots(tree) else None
    small = dataclasses.replace(tree, embeddings=Embedding(None, None, actions), extra_data=None)
    one: Tree = jax.tree.map(lambda x: x[index : index + 1], small)
    if not any((stats.node_visits[0, _ROOT] > 0) for stats in one.stats):
        raise UserError(
            f"element {index} of the tree is empty: nothing was searched; pass the search_tree of "
            "a search's output"
        )
    nodes = _read_nodes(one)
    children: dict[int, list[int]] = {node: [] for node in nodes}
    for node in sorted(nodes.values(), key=lambda node: node.action):
        if node.parent >= 0:
            children[node.parent].append(node.index)
    return SearchTree(tuple(tree_names(len(one.stats))), nodes, children)


def _check(tree: Any, index: Any) -> None:
    if not isinstance(tree, Tree):
        raise UserError(
            f"tree is of type {type(tree).__name__}; pass the search_tree of a search's output"
        )
    if tree.edges.ndim != 2:
        raise UserError(
            f"the tree's arrays have {tree.edges.ndim} leading axes; pass trees with the axes "
            "[batch, node]"
        )
    size = tree.edges.shape[0]
    remedy = f"from 0 to {size - 1}, because the search has a batch of {size}"
    check(is_whole(index) and 0 <= index < size, "index", index, remedy)


def _read_nodes(one: Tree) -> dict[int, Node]:
    """Returns the nodes of a batch of one, by their indices."""

    def rows(*arrays: Any) -> list[np.ndarray]:
        return [np.asarray(x)[0] for x in jax.device_get(arrays)]

    parents, slots, actions = rows(one.parents, one.action_from_parent, played_actions(one))
    discounts, raw_values = rows(one.discounts, one.raw_values)
    edges = np.maximum(parents, 0), slots
    priors = one.children_prior
    if one.prior_is_logits:
        priors = jax.nn.softmax(priors, axis=-1, where=is_unmasked(priors))
    prior = rows(priors)[0][edges]
    trees = one.stats
    visits = np.stack(rows(*(x.node_visits for x in trees)), axis=1)
    counted = (x.node_visits if x.path_visits is None else x.path_visits for x in trees)
    passes = np.stack(rows(*counted), axis=1)
    values = np.stack(rows(*(x.node_values for x in trees)), axis=1)
    tried = np.stack([x[edges] > 0 for x in rows(*(x.children_visits for x in trees))], axis=1)
    qvalues = np.stack([x[edges] for x in rows(*(x.children_qvalues for x in trees))], axis=1)
    nodes: dict[int, Node] = {}
    for node in map(int, np.flatnonzero((parents >= 0) | (np.arange(len(parents)) == _ROOT))):
        parent = int(parents[node])
        nodes[node] = Node(
            index=node,
            parent=parent,
            action=int(actions[node]),
            depth=0 if parent < 0 else nodes[parent].depth + 1,
            prior=float(prior[node]) if node else None,
            is_terminal=bool(discounts[node] == 0),
            raw_value=float(raw_values[node]),
            visits=tuple(visits[node].tolist()),
            passes=tuple(passes[node].tolist()),
            values=_known(values[node], visits[node] > 0),
            qvalues=_known(qvalues[node], tried[node] & (node > 0)),
        )
    return nodes


def _known(values: np.ndarray, is_known: np.ndarray) -> tuple[float | None, ...]:
    return tuple(float(x) if known else None for x, known in zip(values, is_known, strict=True))


def choose_nodes(tree: SearchTree, max_nodes: int, max_depth: int | None = None) -> list[int]:
    """Chooses the most visited nodes whose parents are shown too; returns them in ascending order.

    The nodes are chosen one after the other: each time the one through which the most simulations
    of all trees passed (`Node.passes`); of equal ones, that with the lowest index.
    """
    check_count("max_nodes", max_nodes, 1)
    check_count("max_depth", max_depth, 1, "for all depths")
    shown: list[int] = []
    frontier = [(0, _ROOT)]
    while frontier and len(shown) < max_nodes:
        _, node = heapq.heappop(frontier)
        shown.append(node)
        if max_depth is None or tree.nodes[node].depth < max_depth:
            for child in tree.children[node]:
                heapq.heappush(frontier, (-sum(tree.nodes[child].passes), child))
    return sorted(shown)
