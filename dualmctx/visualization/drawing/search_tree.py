"""Reads the numbers of one finished search tree, of any variant, as Python objects on the host."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from dualmctx.checks import is_whole
from dualmctx.errors import UserError
from dualmctx.policies.names import tree_names
from dualmctx.search.slots import has_slots, played_actions
from dualmctx.search.tree import Tree, is_unmasked
from dualmctx.types import Embedding


class Node(NamedTuple):
    """A node of a search tree. Tuples have one entry for each of the trees over the nodes.

    Attributes:
      index: the index of the node in the arrays of the tree; 0 for the root.
      parent: the index of its parent; -1 for the root.
      action: the game's action that leads to the node; -1 for the root.
      depth: the number of moves from the root.
      prior: the probability of that action at the parent, in [0, 1]; `None` for the root.
      reward: the reward of the move, from the view of the player who made it.
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
    reward: float
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
        while index > Tree.ROOT_INDEX:
            actions.append(self.nodes[index].action)
            index = self.nodes[index].parent
        return actions[::-1]


def read_tree(tree: Any, index: int = 0) -> SearchTree:
    """Copies one element of a batch of trees to the host.

    Args:
      tree: `output.search_tree` of any variant, with B elements.
      index: the element, from 0 to B - 1.

    Returns:
      The nodes, with numbers equal to those of the arrays. If the tree stores logits, `prior` is
      their softmax over the actions that are not masked.

    Raises:
      ValueError: if `tree` is not a tree of this package, the element does not exist, or it has no
        node because nothing was searched.
    """
    _check(tree, index)
    found = _Arrays.of(tree, index)
    if not any(visits[0] > 0 for visits in found.visits):
        raise UserError(
            f"element {index} of the tree is empty: nothing was searched; pass the search_tree of "
            "a search's output"
        )
    nodes: dict[int, Node] = {}
    children: dict[int, list[int]] = {}
    for node in map(
        int, np.flatnonzero((found.parents >= 0) | (np.arange(len(found.parents)) < 1))
    ):
        nodes[node] = found.node(node, nodes)
        children[node] = []
        if node:
            children[nodes[node].parent].append(node)
    for siblings in children.values():
        siblings.sort(key=lambda node: nodes[node].action)
    return SearchTree(tuple(tree_names(len(found.visits))), nodes, children)


def _check(tree: Any, index: Any) -> None:
    if not isinstance(tree, Tree):
        hint = ".search_tree" if hasattr(tree, "search_tree") else ""
        raise UserError(
            f"tree is of type {type(tree).__name__}; pass the search_tree of a search's output, as "
            f"in output{hint or '.search_tree'}"
        )
    if tree.edges.ndim != 2:
        raise UserError(
            f"the tree's arrays have {tree.edges.ndim} leading axes; pass trees with the axes "
            "[batch, node]"
        )
    size = tree.edges.shape[0]
    if not is_whole(index) or not 0 <= index < size:
        allowed = "0" if size == 1 else f"from 0 to {size - 1}"
        raise UserError(
            f"index is {index}; it must be {allowed}, because the search has a batch of {size}"
        )


@dataclasses.dataclass(frozen=True)
class _Arrays:
    """The arrays of one element: `[N]`, or `[N, C]` for the priors, visits and Q of children.

    `visits`, `passes`, `values`, `child_visits` and `child_qvalues` have one array for each tree.
    """

    parents: np.ndarray
    slots: np.ndarray
    actions: np.ndarray
    priors: np.ndarray
    rewards: np.ndarray
    discounts: np.ndarray
    raw_values: np.ndarray
    visits: list[np.ndarray]
    passes: list[np.ndarray]
    values: list[np.ndarray]
    child_visits: list[np.ndarray]
    child_qvalues: list[np.ndarray]

    @classmethod
    def of(cls, tree: Tree, index: int) -> "_Arrays":
        actions = tree.embeddings.actions if has_slots(tree) else None
        small = dataclasses.replace(
            tree, embeddings=Embedding(None, None, actions), extra_data=None
        )
        one: Tree = jax.tree.map(lambda x: x[index : index + 1], small)
        priors = _softmax(one.children_prior) if tree.prior_is_logits else one.children_prior
        fields = (
            *(one.parents, one.action_from_parent, played_actions(one), priors),
            *(one.rewards, one.discounts, one.raw_values),
            [x.node_visits for x in one.stats],
            [x.node_visits if x.path_visits is None else x.path_visits for x in one.stats],
            [x.node_values for x in one.stats],
            [x.children_visits for x in one.stats],
            [x.children_qvalues for x in one.stats],
        )
        return cls(*jax.tree.map(lambda x: np.asarray(x[0]), jax.device_get(fields)))

    def node(self, node: int, nodes: dict[int, Node]) -> Node:
        """Returns a node; its parent must be among `nodes`."""
        parent, slot = int(self.parents[node]), int(self.slots[node])
        is_root = parent < 0
        visits = tuple(int(x[node]) for x in self.visits)
        values = (float(x[node]) for x in self.values)
        qvalues = [
            None if is_root or x[parent, slot] <= 0 else float(q[parent, slot])
            for x, q in zip(self.child_visits, self.child_qvalues, strict=True)
        ]
        return Node(
            index=node,
            parent=parent,
            action=int(self.actions[node]),
            depth=0 if is_root else nodes[parent].depth + 1,
            prior=None if is_root else float(self.priors[parent, slot]),
            reward=float(self.rewards[node]),
            is_terminal=bool(self.discounts[node] == 0),
            raw_value=float(self.raw_values[node]),
            visits=visits,
            passes=tuple(int(x[node]) for x in self.passes),
            values=tuple(x if n > 0 else None for n, x in zip(visits, values, strict=True)),
            qvalues=tuple(qvalues),
        )


def _softmax(logits: jax.Array) -> jax.Array:
    return jax.nn.softmax(logits, axis=-1, where=is_unmasked(logits))
