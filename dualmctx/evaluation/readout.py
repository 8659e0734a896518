"""What a search found, read off its trees in terms of the game's actions."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather
from dualmctx.search.slots import latest_children, slot_actions, slot_of_action, to_actions
from dualmctx.search.tree import Tree, get_children


class Decision(NamedTuple):
    """What was decided in `[B]` positions; the fields are those of `Evaluations`."""

    action: chex.Array
    action_weights: chex.Array
    value: chex.Array
    visits: chex.Array
    qvalues: chex.Array
    principal_variation: chex.Array
    tree_values: chex.Array
    is_finite: chex.Array


def read_root(tree: Tree, num_actions: int) -> tuple[chex.Array, chex.Array]:
    """Reads the actions of the root.

    Args:
      tree: trees after a search, over the game's actions or over slots (`policies.children`).
      num_actions: A of the game.

    Returns:
      `[B, A]` visits in the last tree, 0 for actions without a slot; and Q of each action in the
      last tree that visited it, for the player to move, NaN where none did.
    """
    visits = get_children(tree, Tree.ROOT_INDEX, len(tree.stats) - 1).visits
    latest = latest_children(tree)
    qvalues = jnp.where(latest.visits > 0, latest.qvalues, jnp.nan)
    return to_actions(tree, visits, num_actions), to_actions(tree, qvalues, num_actions, jnp.nan)


def principal_variation(tree: Tree, action: chex.Array, length: int) -> chex.Array:
    """Follows the most visited line of the last tree that visited the first action.

    Args:
      tree: trees after a search.
      action: `[B]` int32, the first action, of the game.
      length: D, at least 1.

    Returns:
      `[B, D]` int32 actions of the game: the first one, then the most visited one of each node that
      the line comes to in that tree, the lowest of equals; -1 from where it visited nothing.
    """
    root, first = jnp.zeros(len(action), jnp.int32), slot_of_action(tree, action)
    is_in = [_at(get_children(tree, root, i).visits, first) > 0 for i in range(len(tree.stats))]
    tree_index = len(is_in) - 1 - jnp.argmax(jnp.stack(is_in[::-1]), axis=0)

    def step(edge: tuple[chex.Array, chex.Array], _: None) -> tuple[Any, chex.Array]:
        node, slot = edge
        is_edge = slot >= 0
        child = jnp.where(is_edge, _at(batched_gather(tree.children_index, node), slot), -1)
        played = jnp.where(is_edge, _at(slot_actions(tree, node), slot), -1)
        # A child that only other trees visited has no visits here.
        after = _visits_in(tree, jnp.maximum(child, 0), tree_index)
        goes_on = (child >= 0) & jnp.any(after > 0, axis=-1)
        best = jnp.where(goes_on, jnp.argmax(after, axis=-1), -1).astype(jnp.int32)
        return (jnp.maximum(child, 0).astype(jnp.int32), best), played

    _, line = jax.lax.scan(step, (root, first), None, length)
    return jnp.swapaxes(line, 0, 1)


def _visits_in(tree: Tree, node: chex.Array, tree_index: chex.Array) -> chex.Array:
    """Reads `[B, A]` visits of the children of `[B]` nodes in `[B]` layers."""
    found = [get_children(tree, node, i).visits for i in range(len(tree.stats))]
    return batched_gather(jnp.stack(found, axis=1), tree_index)


def _at(rows: chex.Array, index: chex.Array) -> chex.Array:
    """Reads `[B, C]` rows at `[B]` indices; at the first where that is -1."""
    return jnp.take_along_axis(rows, jnp.maximum(index, 0)[:, None], axis=-1)[:, 0]
