"""The principal variation: the line of play that a search considers best."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.checks import check, check_count, describe
from dualmctx.search.arrays import batched_gather
from dualmctx.search.slots import slot_actions, slot_of_action
from dualmctx.search.tree import Tree, check_tree, get_children


def principal_variation(tree: Tree, action: chex.Array, length: int = 32) -> Array:
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
    shape = tree.edges.shape[:1]
    is_valid = getattr(action, "shape", None) == shape and jnp.issubdtype(action.dtype, jnp.integer)
    remedy = f"an array of integers of the shape {list(shape)}"
    check(is_valid, "action", describe(action), remedy)
    root, first = jnp.zeros(shape, jnp.int32), slot_of_action(tree, jnp.asarray(action))
    is_visited = [
        _at(get_children(tree, root, i).visits, first) > 0 for i in range(len(tree.stats))
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
    visits = [get_children(tree, node, i).visits for i in range(len(tree.stats))]
    return batched_gather(jnp.stack(visits, axis=1), tree_index)


def _at(rows: Array, index: Array) -> Array:
    """Reads `[B, C]` rows at `[B]` indices; an index of -1 reads the first entry."""
    return jnp.take_along_axis(rows, jnp.maximum(index, 0)[:, None], axis=-1)[:, 0]
