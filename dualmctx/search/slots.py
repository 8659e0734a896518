"""Conversions between action slots and actions, for nodes with a limited number of children.

A policy may limit a node to C of the game's A actions. The arrays of priors, visits and Q then have
an axis of C action slots in place of the A actions, and `Embedding.actions` maps each slot to its
action. Without a limit, slots and actions are the same.
"""

import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_gather, by_edge
from dualmctx.search.stats import Children
from dualmctx.search.tree import Tree, check_tree, edge_index, get_children
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


def slot_of_action(tree: Tree, action: Array) -> Array:
    """Returns `[B]` int32, the root's slots of `[B]` actions; -1 for actions without a slot."""
    if not has_slots(tree):
        is_action = (action >= 0) & (action < tree.num_actions)
        return jnp.where(is_action, action, -1).astype(jnp.int32)
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


def latest_children(tree: Tree) -> Children:
    """Reads the statistics of each child of the root from the last tree that visited it.

    With several trees, the chosen action may be one that the last tree has not visited.

    Returns:
      `[B, C]` visits and Q of the root's slots; both are 0 where no tree visited the child.
    """
    found = get_children(tree, Tree.ROOT_INDEX)
    for tree_index in range(1, len(tree.stats)):
        later = get_children(tree, Tree.ROOT_INDEX, tree_index)
        is_later = later.visits > 0
        found = Children(
            jnp.where(is_later, later.visits, found.visits),
            jnp.where(is_later, later.qvalues, found.qvalues),
        )
    return found
