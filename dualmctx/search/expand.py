"""Expansion: one batched evaluation adds a new node to each search tree."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import (
    batched_scatter,
    by_edge,
    expand_mask,
    write_slot,
    write_slot_pair,
)
from dualmctx.search.tree import EvaluateFn, LastEdge, NodeInit, Tree, edge_index, get_state
from dualmctx.types import Params


class Expansion(NamedTuple):
    """The evaluations at the ends of paths.

    Attributes:
      node: `[B, ...]` the evaluation; used only where `is_new`.
      embedding: `[B, ...]` the embeddings, used only where `is_new`.
      is_new: `[B]` bool, paths that end with an edge into a node that does not exist yet.
    """

    node: NodeInit
    embedding: Any
    is_new: Array


def evaluate_path(
    params: Params,
    rng_key: Array,
    tree: Tree,
    evaluate_fn: EvaluateFn,
    path: LastEdge,
    is_active: Array | None = None,
) -> Expansion:
    """Evaluates the state at the end of each path in one batched call.

    Args:
      params: passed on to `evaluate_fn`.
      rng_key: consumed by `evaluate_fn`.
      tree: the trees.
      evaluate_fn: plays the paths' last actions and evaluates the resulting states.
      path: the last edge of each path.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      The evaluations.
    """
    is_new = path.child == Tree.UNVISITED
    state = get_state(tree, path.parent)
    if is_active is None:
        new, embedding = evaluate_fn(params, rng_key, path.action, state)
    else:
        is_new &= is_active
        # `is_active` is given when some elements have no node left for a later tree to evaluate.
        # Their paths nearly always end at terminal nodes, which need no evaluation.
        is_needed = jnp.any(is_new)
        new, embedding = _evaluate_if(is_needed, evaluate_fn, params, rng_key, path.action, state)
    chex.assert_shape(new.prior, (path.action.shape[0], tree.num_actions))
    chex.assert_shape([new.value, new.reward, new.discount], path.action.shape)
    return Expansion(new, embedding, is_new)


def insert_embeddings(tree: Tree, expansion: Expansion, node_index: Array | int) -> Tree:
    """Writes the embeddings of new nodes to a slot, which stays empty in the other elements."""

    def write(array: Array, row: Array) -> Array:
        return write_slot(array, node_index, _empty_unless(expansion.is_new, row, array.dtype))

    embeddings = jax.tree.map(write, tree.embeddings, expansion.embedding)
    return tree.replace(embeddings=embeddings)


def insert_node(
    tree: Tree, path: LastEdge, new: NodeInit, is_new: Array, node_index: Array | int
) -> tuple[Tree, Array]:
    """Creates the node at the end of each path, unless it exists already.

    All elements of the batch write to the same slot, so the write is a slice update in place. If a
    path ends at an existing node, the slot stays empty in that element.

    Args:
      tree: the trees.
      path: the last edge of each path.
      new: the evaluations at the ends of the paths.
      is_new: `[B]` bool, elements that get a new node.
      node_index: scalar, an empty slot, which the new node takes.

    Returns:
      The trees, without the new embeddings; and `[B]` int32, the nodes at the ends of the paths
      (undefined where inactive). New nodes have no visits yet; the backup adds the first one.
    """
    leaf = jnp.where(is_new, node_index, path.child)
    edge = edge_index(tree, path.parent, path.action)
    children_index = batched_scatter(by_edge(tree.children_index), edge, leaf)

    def write(array: Array, row: Array, empty: Any = 0) -> Array:
        return write_slot(array, node_index, _empty_unless(is_new, row, array.dtype, empty))

    reward, discount = (_empty_unless(is_new, x, x.dtype) for x in (new.reward, new.discount))
    tree = tree.replace(
        edges=write(tree.edges, edge, Tree.NO_PARENT),
        transitions=write_slot_pair(tree.transitions, node_index, reward, discount),
        children_index=children_index.reshape(tree.children_index.shape),
        children_prior=write(tree.children_prior, new.prior),
        raw_values=write(tree.raw_values, new.value),
    )
    return tree, jnp.maximum(leaf, 0)


def _empty_unless(is_new: Array, row: Array, dtype: Any, empty: Any = 0) -> Array:
    """Returns `[B, ...]` rows of a type, with the entry of an empty slot where not new."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):  # Random keys cannot be converted.
        return jnp.where(expand_mask(is_new, row), row, jnp.zeros((), dtype))
    return jnp.where(expand_mask(is_new, row), row.astype(dtype), jnp.asarray(empty, dtype))


def _evaluate_if(is_needed: Array, evaluate_fn: EvaluateFn, *inputs: Any) -> tuple[NodeInit, Any]:
    """Calls a function if a scalar is true; otherwise returns zeros of the same shapes."""

    def skip(*inputs: Any) -> Any:
        shapes = jax.eval_shape(evaluate_fn, *inputs)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    return jax.lax.cond(is_needed, evaluate_fn, skip, *inputs)
