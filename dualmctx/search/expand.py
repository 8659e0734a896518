"""Expansion: one batched evaluation adds a new node to each search tree."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_scatter, by_edge, expand_mask, pair
from dualmctx.search.tree import Tree, edge_index, get_state
from dualmctx.types import EvaluateFn, NodeInit, Params, Path


def expand(
    params: Params,
    rng_key: Array,
    tree: Tree,
    evaluate_fn: EvaluateFn,
    path: Path,
    node_index: Array | int,
    is_active: Array | None = None,
) -> tuple[Tree, Array]:
    """Creates the node at the end of each path, unless it exists already.

    All elements of the batch write to the same slot, so the write is a slice update in place. If a
    path ends at an existing node, the slot stays empty in that element.

    Args:
      params: passed on to `evaluate_fn`.
      rng_key: consumed by `evaluate_fn`.
      tree: the trees.
      evaluate_fn: plays the paths' last actions and evaluates the resulting states.
      path: the last edge of each path.
      node_index: scalar, an empty slot, which the new node takes.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      The trees; and `[B]` int32, the nodes at the ends of the paths (undefined where inactive).
      New nodes have no visits yet; the backup adds the first one.
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
    leaf = jnp.where(is_new, node_index, path.child)
    edge = edge_index(tree, path.parent, path.action)
    children_index = batched_scatter(by_edge(tree.children_index), edge, leaf)

    def write(array: Array, row: Array, empty: Any = 0) -> Array:
        row = jnp.where(
            expand_mask(is_new, row), row.astype(array.dtype), jnp.asarray(empty, array.dtype)
        )
        return jax.lax.dynamic_update_slice_in_dim(array, row[:, None], node_index, axis=1)

    tree = tree.replace(
        edges=write(tree.edges, edge, Tree.NO_PARENT),
        transitions=write(tree.transitions, pair(new.reward, new.discount)),
        children_index=children_index.reshape(tree.children_index.shape),
        children_prior=write(tree.children_prior, new.prior),
        raw_values=write(tree.raw_values, new.value),
        embeddings=jax.tree.map(write, tree.embeddings, embedding),
    )
    return tree, jnp.maximum(leaf, 0)


def _evaluate_if(is_needed: Array, evaluate_fn: EvaluateFn, *inputs: Any) -> tuple[NodeInit, Any]:
    """Calls a function if a scalar is true; otherwise returns zeros of the same shapes."""

    def skip(*inputs: Any) -> Any:
        shapes = jax.eval_shape(evaluate_fn, *inputs)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    return jax.lax.cond(is_needed, evaluate_fn, skip, *inputs)
