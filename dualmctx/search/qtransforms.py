"""mctx's qtransforms for rows: the same scores in a kernel, where rows are padded."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

import functools
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.search.mctx_adapter import QTransform, node_view
from dualmctx.search.node import Node
from dualmctx.search.references import is_reference


def transform_qvalues(qtransform: QTransform, node: Node) -> Array:
    """Returns the `[B, A]` scores of a qtransform.

    Outside of kernels, the qtransform itself is called. In a kernel, the function of this module
    that corresponds to it takes its place.
    """
    if not is_reference(node.tree.edges):
        return jax.vmap(qtransform, in_axes=(0, None))(node_view(node), 0)
    function, options = _split(qtransform)
    return _ROW_TRANSFORMS[function](node, **options)


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


def _by_min_max(node: Node, *, min_value: Any, max_value: Any) -> Array:
    """As `mctx.qtransform_by_min_max`."""
    score = jnp.where(node.visits > 0, node.qvalues, min_value)
    return (score - min_value) / (max_value - min_value)


def _by_parent_and_siblings(node: Node, *, epsilon: Any = 1e-8) -> Array:
    """As `mctx.qtransform_by_parent_and_siblings`."""
    # The entries past the last action have no visits, so they have the node's value.
    visits, qvalues, node_value = node.visits, node.qvalues, node.value[:, None]
    safe = jnp.where(visits > 0, qvalues, node_value)
    least = jnp.minimum(node_value, jnp.min(safe, axis=-1, keepdims=True))
    most = jnp.maximum(node_value, jnp.max(safe, axis=-1, keepdims=True))
    completed = jnp.where(visits > 0, qvalues, least)
    return (completed - least) / jnp.maximum(most - least, epsilon)


def _completed_by_mix_value(
    node: Node,
    *,
    value_scale: Any = 0.1,
    maxvisit_init: Any = 50.0,
    rescale_values: bool = True,
    use_mixed_value: bool = True,
    epsilon: Any = 1e-8,
) -> Array:
    """As `mctx.qtransform_completed_by_mix_value`."""
    visits, value = node.visits, _mixed_value(node) if use_mixed_value else node.raw_value[:, None]
    completed = jnp.where(visits > 0, node.qvalues, value)
    if rescale_values:
        least = jnp.min(node.mask(completed, jnp.inf), axis=-1, keepdims=True)
        most = jnp.max(node.mask(completed, -jnp.inf), axis=-1, keepdims=True)
        completed = (completed - least) / jnp.maximum(most - least, epsilon)
    scale = maxvisit_init + jnp.max(visits, axis=-1, keepdims=True)
    return scale * value_scale * completed


def _mixed_value(node: Node) -> Array:
    """Returns the `[B, 1]` mean of the raw value and the Q-values, weighted by the prior."""
    probs = jax.nn.softmax(node.prior)
    probs = jnp.maximum(jnp.finfo(probs.dtype).tiny, probs)
    visits, qvalues = node.visits, node.qvalues
    is_visited = visits > 0
    total = jnp.sum(visits, axis=-1, keepdims=True)
    sum_probs = jnp.sum(jnp.where(is_visited, probs, 0.0), axis=-1, keepdims=True)
    shares = probs * qvalues / jnp.where(is_visited, sum_probs, 1.0)
    weighted = jnp.sum(jnp.where(is_visited, shares, 0.0), axis=-1, keepdims=True)
    return (node.raw_value[:, None] + total * weighted) / (total + 1)


# Each maps a node to `[B, A]` scores. The scores past the last action are finite and have no
# meaning.
_ROW_TRANSFORMS: dict[Any, Callable[..., Array]] = {
    mctx.qtransform_by_min_max: _by_min_max,
    mctx.qtransform_by_parent_and_siblings: _by_parent_and_siblings,
    mctx.qtransform_completed_by_mix_value: _completed_by_mix_value,
}
