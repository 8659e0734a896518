"""Results of a search in actions of the game, whose nodes may have a limited number of children.

A policy may limit a node to C of the game's A actions. The arrays of priors, visits and Q then have
an axis of C action slots in place of the A actions, and `Embedding.actions` maps each slot to its
action. Without a limit, slots and actions are the same.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.checks import check, check_count, describe
from dualmctx.search.arrays import batched_gather, by_edge
from dualmctx.search.node import Node
from dualmctx.search.tree import Tree, check_tree, edge_index
from dualmctx.types import Embedding


def has_slots(tree: Tree) -> bool:
    """Returns whether the nodes have action slots that differ from the game's actions."""
    return isinstance(tree.embeddings, Embedding) and tree.embeddings.actions is not None


def slot_actions(tree: Tree, node_index: Array | int = Tree.ROOT_INDEX) -> Array:
    """Returns `[B, C]` int32, the game's action of each slot of `[B]` nodes."""
    if has_slots(tree):
        return batched_gather(tree.embeddings.actions, node_index)
    actions = jnp.arange(tree.num_actions, dtype=jnp.int32)
    return jnp.broadcast_to(actions, (tree.edges.shape[0], tree.num_actions))


def to_actions(tree: Tree, rows: Array, num_actions: int, fill: float = 0) -> Array:
    """Converts `[B, C]` numbers for the root's slots to `[B, A]` numbers for the game's actions.

    Args:
      tree: the trees.
      rows: a number for each slot of the root.
      num_actions: A, the number of actions of the game.
      fill: the number for actions without a slot.

    Returns:
      `[B, A]` numbers.
    """
    if not has_slots(tree):
        return rows
    batch = jnp.arange(rows.shape[0])[:, None]
    spread = jnp.full((rows.shape[0], num_actions), fill, rows.dtype)
    return spread.at[batch, slot_actions(tree)].set(rows, unique_indices=True)


def to_slots(tree: Tree, rows: Array) -> Array:
    """Converts `[B, A]` numbers for the game's actions to `[B, C]` numbers for the root's slots."""
    if not has_slots(tree):
        return rows
    return jnp.take_along_axis(rows, slot_actions(tree), axis=-1)


def check_row(tree: Tree, name: str, row: Any, kind: Any, kind_name: str, hint: str = "") -> None:
    """Checks that an argument is an array of a kind of dtype, with an entry for each tree.

    Raises:
      ValueError: if it is not; the message ends with the hint.
    """
    shape = tree.edges.shape[:1]
    is_row = getattr(row, "shape", None) == shape and jnp.issubdtype(row.dtype, kind)
    check(is_row, name, describe(row), f"an array of {kind_name} of the shape {list(shape)}{hint}")


def root_slots(tree: Tree, action: Any, name: str = "action", hint: str = "") -> Array:
    """Returns `[B]` int32, the root's slots of `[B]` actions; -1 for actions without a slot.

    Raises:
      ValueError: if the actions are not an array of integers with one for each tree; see
        `check_row` for the name and the hint.
    """
    check_row(tree, name, action, jnp.integer, "integers", hint)
    # The number of actions may not fit a narrow type, and -1 not an unsigned one.
    action = jnp.asarray(action).astype(jnp.int32)
    if not has_slots(tree):
        return jnp.where((action >= 0) & (action < tree.num_actions), action, -1)
    # An action has at most one slot.
    is_same = slot_actions(tree) == action[:, None]
    slot = jnp.argmax(is_same, axis=-1).astype(jnp.int32)
    return jnp.where(jnp.any(is_same, axis=-1), slot, -1)


def played_actions(tree: Tree) -> Array:
    """Returns `[B, N]` int32, the game's action that led to each node; -1 where there is none.

    With limited children, `Tree.action_from_parent` holds slots; this function converts them.
    """
    check_tree(tree)
    slots = tree.action_from_parent
    if not has_slots(tree):
        return slots
    is_child = tree.parents != Tree.NO_PARENT
    edge = edge_index(tree, jnp.maximum(tree.parents, 0), jnp.maximum(slots, 0))
    actions = batched_gather(by_edge(tree.embeddings.actions), edge)
    return jnp.where(is_child, actions, Tree.NO_PARENT)


def latest_children(tree: Tree) -> tuple[Array, Array]:
    """Reads the statistics of each child of the root from the last tree that visited it.

    With several trees, the chosen action may be one that the last tree has not visited.

    Returns:
      `[B, C]` visits and Q of the root's slots; both are 0 where no tree visited the child.
    """
    first, *others = (Node(tree, Tree.ROOT_INDEX, tree_index=i) for i in range(len(tree.stats)))
    visits, qvalues = first.visits, first.qvalues
    for later in others:
        is_later = later.visits > 0
        visits = jnp.where(is_later, later.visits, visits)
        qvalues = jnp.where(is_later, later.qvalues, qvalues)
    return visits, qvalues


def principal_variation(tree: Tree, action: Array, length: int = 32) -> Array:
    """Returns the most visited line of play, in the last tree that visited its first action.

    Args:
      tree: the trees after a search, `output.search_tree`.
      action: `[B]` integers, the first actions, as actions of the game; usually `output.action`. -1
        for none.
      length: D, the length of the result, at least 1.

    Returns:
      `[B, D]` int32 actions of the game: the first action, then the most visited action of each
      following node in that tree, the lowest action on ties; padded with -1. The line ends at a
      terminal node and where the search has not gone further. An action without a slot gives -1
      only.

    Raises:
      ValueError: if an argument has a wrong type or shape.
    """
    check_count("length", length, 1)
    check_tree(tree)
    first = root_slots(tree, action)
    root = jnp.zeros_like(first)
    is_visited = [
        _at(Node(tree, root, tree_index=i).visits, first) > 0 for i in range(len(tree.stats))
    ]
    tree_index = len(is_visited) - 1 - jnp.argmax(jnp.stack(is_visited[::-1]), axis=0)

    def step(edge: tuple[Array, Array], _: None) -> tuple[Any, Array]:
        node, slot = edge
        is_edge = slot >= 0
        child = jnp.where(is_edge, _at(batched_gather(tree.children_index, node), slot), -1)
        played = jnp.where(is_edge, _at(slot_actions(tree, node), slot), -1)
        # The child may have no visits in this tree if only other trees visited it.
        after = _visits_in(tree, jnp.maximum(child, 0), tree_index)
        continues = (child >= 0) & jnp.any(after > 0, axis=-1)
        best = jnp.where(continues, jnp.argmax(after, axis=-1), -1).astype(jnp.int32)
        return (jnp.maximum(child, 0).astype(jnp.int32), best), played

    _, line = jax.lax.scan(step, (root, first), None, length)
    return jnp.swapaxes(line, 0, 1)


def _visits_in(tree: Tree, node: Array, tree_index: Array) -> Array:
    """Reads `[B, A]` visits of the children of `[B]` nodes in `[B]` trees."""
    visits = [Node(tree, node, tree_index=i).visits for i in range(len(tree.stats))]
    return batched_gather(jnp.stack(visits, axis=1), tree_index)


def _at(rows: Array, index: Array) -> Array:
    """Reads `[B, C]` rows at `[B]` indices; an index of -1 reads the first entry."""
    return jnp.take_along_axis(rows, jnp.maximum(index, 0)[:, None], axis=-1)[:, 0]
