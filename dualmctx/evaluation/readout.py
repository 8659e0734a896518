"""Reads the results of a search from its trees, by action of the game."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather
from dualmctx.search.slots import latest_children, slot_actions, slot_of_action, to_actions
from dualmctx.search.tree import Tree, get_children


class Decision(NamedTuple):
    """The decision in `[B]` positions; fields as in `Evaluations`."""

    action: chex.Array
    action_weights: chex.Array
    value: chex.Array
    visits: chex.Array
    qvalues: chex.Array
    principal_variation: chex.Array
    tree_values: chex.Array
    is_finite: chex.Array


def read_root(tree: Tree, num_actions: int) -> tuple[chex.Array, chex.Array]:
    """Reads visits and Q-values of the actions of the root.

    Args:
      tree: trees after a search, over all actions or over slots (`policies.top_actions`).
      num_actions: A, the number of actions of the game.

    Returns:
      `[B, A]` visits in the last tree, 0 for actions without a slot; and `[B, A]` Q-values in the
      last tree that visited the action, from the view of the player to move, NaN if no tree did.
    """
    visits = get_children(tree, Tree.ROOT_INDEX, len(tree.stats) - 1).visits
    latest = latest_children(tree)
    qvalues = jnp.where(latest.visits > 0, latest.qvalues, jnp.nan)
    return to_actions(tree, visits, num_actions), to_actions(tree, qvalues, num_actions, jnp.nan)


def principal_variation(tree: Tree, action: chex.Array, length: int) -> chex.Array:
    """Follows the most visited line in the last tree that visited the first action.

    Args:
      tree: trees after a search.
      action: `[B]` int32, the first action, as an action of the game.
      length: D, at least 1.

    Returns:
      `[B, D]` int32 actions of the game: the first action, then the most visited action of each
      following node in that tree, the lowest action on ties; padded with -1.
    """
    root, first = jnp.zeros(action.shape, jnp.int32), slot_of_action(tree, action)
    is_visited = [
        _at(get_children(tree, root, i).visits, first) > 0 for i in range(len(tree.stats))
    ]
    tree_index = len(is_visited) - 1 - jnp.argmax(jnp.stack(is_visited[::-1]), axis=0)

    def step(edge: tuple[chex.Array, chex.Array], _: None) -> tuple[Any, chex.Array]:
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


def _visits_in(tree: Tree, node: chex.Array, tree_index: chex.Array) -> chex.Array:
    """Reads `[B, A]` visits of the children of `[B]` nodes in `[B]` trees."""
    visits = [get_children(tree, node, i).visits for i in range(len(tree.stats))]
    return batched_gather(jnp.stack(visits, axis=1), tree_index)


def _at(rows: chex.Array, index: chex.Array) -> chex.Array:
    """Reads `[B, C]` rows at `[B]` indices; an index of -1 reads the first entry."""
    return jnp.take_along_axis(rows, jnp.maximum(index, 0)[:, None], axis=-1)[:, 0]
