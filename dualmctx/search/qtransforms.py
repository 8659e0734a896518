"""mctx's qtransforms for rows: the same scores in a kernel, where rows are padded."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.search.arrays import batched_gather, by_edge, gather_pair, mask_lanes
from dualmctx.search.mctx_adapter import QTransform, node_view
from dualmctx.search.references import is_reference
from dualmctx.search.tree import Tree


class NodeRows(NamedTuple):
    """The data of one node of every tree that mctx's rules read.

    Attributes:
      logits: `[B, A]` prior logits.
      visits: `[B, A]` int32 visits of the children.
      qvalues: `[B, A]` Q, 0 for unvisited actions, from the view of the player to move.
      node_visits: `[B]` int32 visits of the node.
      node_value: `[B]` mean of the node.
      raw_value: `[B]` value of the node without search.
      view: the same data as mctx's trees; `None` in a kernel.
    """

    logits: Array
    visits: Array
    qvalues: Array
    node_visits: Array
    node_value: Array
    raw_value: Array
    view: mctx.Tree | None


def read_row(array: Array, node_index: Array | int, actions: Array | None) -> Array:
    """Reads `[B, A]` rows of nodes from a `[B, N, A]` array, or `[B, K]` actions of the root."""
    if actions is None:
        return batched_gather(array, node_index)
    # The edges of the root come first.
    return batched_gather(by_edge(array), actions)


def read_rows(tree: Tree, node_index: Array | int, actions: Array | None = None) -> NodeRows:
    """Reads the data of `[B]` nodes, or of `[B, K]` actions of the root, in the first tree."""
    stats = tree.stats[0]
    qvalues = read_row(stats.children_qvalues, node_index, actions)
    if not is_reference(tree.edges):
        view = node_view(tree, node_index, actions=actions)
        return NodeRows(
            logits=view.children_prior_logits[:, 0],
            visits=view.children_visits[:, 0],
            qvalues=qvalues,
            node_visits=view.node_visits[:, 0],
            node_value=view.node_values[:, 0],
            raw_value=view.raw_values[:, 0],
            view=view,
        )
    node_visits, node_value = gather_pair(stats.node_stats, node_index)
    return NodeRows(
        logits=read_row(tree.children_prior, node_index, actions),
        visits=read_row(stats.children_visits, node_index, actions).astype(jnp.int32),
        qvalues=qvalues,
        node_visits=node_visits.astype(jnp.int32),
        node_value=node_value,
        raw_value=batched_gather(tree.raw_values, node_index),
        view=None,
    )


def transform_qvalues(qtransform: QTransform, rows: NodeRows, num_actions: int) -> Array:
    """Returns the `[B, A]` scores of a qtransform at the nodes of the rows.

    Outside of kernels, the qtransform itself is called. In a kernel, the function of this module
    that corresponds to it takes its place.
    """
    if rows.view is not None:
        return jax.vmap(qtransform, in_axes=(0, None))(rows.view, 0)
    function, options = _split(qtransform)
    return _ROW_TRANSFORMS[function](rows, num_actions, **options)


def has_row_transform(qtransform: QTransform) -> bool:
    """Returns whether a qtransform is one of mctx's, with or without options."""
    function, _ = _split(qtransform)
    return isinstance(function, types.FunctionType) and function in _ROW_TRANSFORMS


def _split(qtransform: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the function of a qtransform and its options."""
    if not isinstance(qtransform, functools.partial):
        return qtransform, {}
    if qtransform.args:
        return qtransform, {}
    return qtransform.func, dict(qtransform.keywords)


def _by_min_max(rows: NodeRows, num_actions: int, *, min_value: Any, max_value: Any) -> Array:
    """As `mctx.qtransform_by_min_max`."""
    del num_actions
    score = jnp.where(rows.visits > 0, rows.qvalues, min_value)
    return (score - min_value) / (max_value - min_value)


def _by_parent_and_siblings(rows: NodeRows, num_actions: int, *, epsilon: Any = 1e-8) -> Array:
    """As `mctx.qtransform_by_parent_and_siblings`."""
    # The entries past the last action have no visits, so they have the node's value.
    del num_actions
    node_value = rows.node_value[:, None]
    safe = jnp.where(rows.visits > 0, rows.qvalues, node_value)
    least = jnp.minimum(node_value, jnp.min(safe, axis=-1, keepdims=True))
    most = jnp.maximum(node_value, jnp.max(safe, axis=-1, keepdims=True))
    completed = jnp.where(rows.visits > 0, rows.qvalues, least)
    return (completed - least) / jnp.maximum(most - least, epsilon)


def _completed_by_mix_value(
    rows: NodeRows,
    num_actions: int,
    *,
    value_scale: Any = 0.1,
    maxvisit_init: Any = 50.0,
    rescale_values: bool = True,
    use_mixed_value: bool = True,
    epsilon: Any = 1e-8,
) -> Array:
    """As `mctx.qtransform_completed_by_mix_value`."""
    value = _mixed_value(rows) if use_mixed_value else rows.raw_value[:, None]
    completed = jnp.where(rows.visits > 0, rows.qvalues, value)
    if rescale_values:
        least = jnp.min(mask_lanes(completed, num_actions, jnp.inf), axis=-1, keepdims=True)
        most = jnp.max(mask_lanes(completed, num_actions, -jnp.inf), axis=-1, keepdims=True)
        completed = (completed - least) / jnp.maximum(most - least, epsilon)
    scale = maxvisit_init + jnp.max(rows.visits, axis=-1, keepdims=True)
    return scale * value_scale * completed


def _mixed_value(rows: NodeRows) -> Array:
    """Returns the `[B, 1]` mean of the raw value and the Q-values, weighted by the prior."""
    probs = jax.nn.softmax(rows.logits)
    probs = jnp.maximum(jnp.finfo(probs.dtype).tiny, probs)
    is_visited = rows.visits > 0
    total = jnp.sum(rows.visits, axis=-1, keepdims=True)
    sum_probs = jnp.sum(jnp.where(is_visited, probs, 0.0), axis=-1, keepdims=True)
    shares = probs * rows.qvalues / jnp.where(is_visited, sum_probs, 1.0)
    weighted = jnp.sum(jnp.where(is_visited, shares, 0.0), axis=-1, keepdims=True)
    return (rows.raw_value[:, None] + total * weighted) / (total + 1)


# Each maps rows and the number of actions to `[B, A]` scores. The scores past the last action are
# finite and have no meaning.
_ROW_TRANSFORMS: dict[Any, Callable[..., Array]] = {
    mctx.qtransform_by_min_max: _by_min_max,
    mctx.qtransform_by_parent_and_siblings: _by_parent_and_siblings,
    mctx.qtransform_completed_by_mix_value: _completed_by_mix_value,
}
