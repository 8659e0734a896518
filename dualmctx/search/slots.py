"""Slots and actions: where a policy limits the children of a node, these stand for some actions.

A node with C slots keeps C of the game's A actions. Priors, visits and Q then have an axis of slots
in place of actions, and `Embedding.actions` names the action of each slot. Without a limit, slot
and action are the same. All conversions between the two are here and start from `slot_actions`.
"""

import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_gather, by_edge
from dualmctx.search.stats import Children
from dualmctx.search.tree import Tree, edge_index, get_children
from dualmctx.types import Embedding


def has_slots(tree: Tree) -> bool:
    """Returns whether the nodes have slots that differ from the game's actions."""
    return isinstance(tree.embeddings, Embedding) and tree.embeddings.actions is not None


def slot_actions(tree: Tree, node_index: Array | int = Tree.ROOT_INDEX) -> Array:
    """Returns `[B, C]` int32, the game's actions that the slots of `[B]` nodes stand for."""
    if has_slots(tree):
        return batched_gather(tree.embeddings.actions, node_index)
    actions = jnp.arange(tree.num_actions, dtype=jnp.int32)
    return jnp.broadcast_to(actions, (tree.edges.shape[0], tree.num_actions))


def to_actions(tree: Tree, rows: Array, num_actions: int, fill: float = 0) -> Array:
    """Spreads `[B, C]` numbers of the root's slots over the game's actions.

    Args:
      tree: the trees.
      rows: a number for each slot of the root.
      num_actions: A of the game.
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
    """Reads `[B, A]` numbers of the game's actions at the root's slots, giving `[B, C]`."""
    if not has_slots(tree):
        return rows
    return jnp.take_along_axis(rows, slot_actions(tree), axis=-1)


def slot_of_action(tree: Tree, action: Array) -> Array:
    """Returns `[B]` int32, the root's slots of `[B]` actions; -1 for actions without a slot."""
    if not has_slots(tree):
        is_action = (action >= 0) & (action < tree.num_actions)
        return jnp.where(is_action, action, -1).astype(jnp.int32)
    # An action has one slot at most.
    is_same = slot_actions(tree) == action[:, None]
    slot = jnp.argmax(is_same, axis=-1).astype(jnp.int32)
    return jnp.where(jnp.any(is_same, axis=-1), slot, -1)


def played_actions(tree: Tree) -> Array:
    """Returns `[B, N]` int32, the game's action that led to each node; -1 where there is none.

    Without a limit on the children this is `Tree.action_from_parent`, which holds slots otherwise.
    """
    slots = tree.action_from_parent
    if not has_slots(tree):
        return slots
    is_child = tree.parents != Tree.NO_PARENT
    edge = edge_index(tree, jnp.maximum(tree.parents, 0), jnp.maximum(slots, 0))
    actions = batched_gather(by_edge(tree.embeddings.actions), edge)
    return jnp.where(is_child, actions, Tree.NO_PARENT)


def latest_children(tree: Tree) -> Children:
    """Reads the root's children, each in the last tree that visited it.

    With several trees, an action may be chosen by another tree than the last one.

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
