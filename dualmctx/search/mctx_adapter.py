"""Adapters for mctx: its selection rules, its qtransforms, and trees for its tools."""

import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.search.arrays import batched_gather, is_reference
from dualmctx.search.keys import mctx_keys
from dualmctx.search.node import Node, Rule
from dualmctx.search.tree import Tree, check_tree, edge_into, gather_children

MctxRule = Callable[[Array, mctx.Tree, Any, Any], Array]
"""An action selection function of mctx: takes an unbatched key, tree, node and depth."""
MctxRootRule = Callable[[Array, mctx.Tree, Any], Array]
"""A root action selection function of mctx: takes an unbatched key, tree and node."""
QTransform = Callable[[mctx.Tree, Any], Array]
"""A qtransform of mctx: maps an unbatched tree and a node to `[A]` scores."""


@chex.dataclass(frozen=True)
class _NodeView(mctx.Tree):
    """Trees with a single node, at index 0: the node at which a rule selects.

    mctx computes Q-values from the rewards, discounts and values of the children. Trees here store
    Q, so XLA removes the gathers of these three unless a rule reads them itself.
    """

    children_qvalues: Array

    def qvalues(self, indices: Any) -> Array:
        """Returns the stored Q-values."""
        return self.children_qvalues[indices]


def node_view(node: Node) -> mctx.Tree:
    """Returns `[B]` nodes as a batch of mctx trees, each with one node and without embeddings."""
    tree, stats = node.tree, node.tree.stats[node.tree_index]

    def read_node(array: Array) -> Array:
        return batched_gather(array, node.index)[:, None]

    def read_children(array: Array, part: int) -> Array:
        known = gather_children(index, array)[..., part]
        return jnp.where(visits > 0, known, 0)[:, None]

    edge = edge_into(tree, node.index)
    visits, index = node.visits, node.children
    return _NodeView(
        node_visits=node.num_visits[:, None],
        raw_values=node.raw_value[:, None],
        node_values=node.value[:, None],
        parents=edge.parent[:, None],
        action_from_parent=read_node(tree.action_from_parent),
        children_index=index[:, None],
        children_prior_logits=node.prior[:, None],
        children_visits=visits[:, None],
        children_rewards=read_children(tree.transitions, 0),
        children_discounts=read_children(tree.transitions, 1),
        children_values=read_children(stats.node_stats, 1),
        embeddings=None,
        root_invalid_actions=tree.root_invalid_actions,
        extra_data=tree.extra_data,
        children_qvalues=node.qvalues[:, None],
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AdaptedRule(Rule):
    """A rule written for mctx; see `mctx_rule`."""

    rule: MctxRule = dataclasses.field(metadata={"static": True})
    """The rule."""

    def __call__(self, rng_key: Any, node: Node) -> Array:
        """Chooses `[B]` actions."""
        keys = mctx_keys(rng_key, node.batch_size, node.depth)
        return jax.vmap(self.rule, (0, 0, None, None))(keys, node_view(node), 0, node.depth)


def mctx_rule(rule: MctxRule) -> Rule:
    """Adapts a rule written for mctx, unchanged, to this package's trees.

    The rule gets an `mctx.Tree` with a single node, at index 0, and without embeddings; its logits
    are `Tree.children_prior`. A rule can therefore read only the data of the node at which it
    selects, which is all that mctx's own rules read. It can recognise the root by the depth.

    Args:
      rule: an action selection function with mctx's signature.

    Returns:
      The rule, which uses the same keys as mctx and runs in XLA's loops. For root rules, which take
      no depth, use `mctx_root_rule`.
    """
    return AdaptedRule(rule)


def mctx_root_rule(rule: MctxRootRule) -> Rule:
    """Adapts a rule that mctx calls only at the root, without a depth, to this package's trees.

    Args:
      rule: a root action selection function with mctx's signature.

    Returns:
      The rule, which uses the same keys as mctx; for `SearchSpec.root_rule`.
    """
    return AdaptedRule(lambda rng_key, tree, node_index, _: rule(rng_key, tree, node_index))


def to_mctx(tree: Tree, tree_index: int = 0) -> mctx.Tree:
    """Exports one of the trees as an `mctx.Tree`.

    Args:
      tree: trees after a search.
      tree_index: the tree to export. Nodes that it has not visited appear as unvisited.

    Returns:
      The same trees in mctx's arrays. Probabilities become logits, with the lowest finite number
      for illegal actions; logits are unchanged. As in mctx, empty slots are 0, or -1 in arrays of
      indices; the priors of nodes that this tree has not visited are 0 too. Terminal nodes have no
      children; a search by mctx would have continued there.

    Raises:
      ValueError: if the tree or the index is wrong.
    """
    check_tree(tree, tree_index)
    prior, stats = tree.children_prior, tree.stats[tree_index]
    if not tree.prior_is_logits:
        limits = jnp.finfo(prior.dtype)
        logits = jnp.log(jnp.maximum(prior, limits.tiny))
        masked = jnp.where(prior > 0, logits, limits.min)
        prior = jnp.where(stats.node_visits[..., None] > 0, masked, 0)
    is_child = stats.children_visits > 0

    def read_children(array: Array) -> Array:
        return jnp.where(is_child, gather_children(tree.children_index, array), 0)

    return mctx.Tree(
        node_visits=stats.node_visits,
        raw_values=tree.raw_values,
        node_values=stats.node_values,
        parents=tree.parents,
        action_from_parent=tree.action_from_parent,
        children_index=jnp.where(is_child, tree.children_index.astype(jnp.int32), Tree.UNVISITED),
        children_prior_logits=prior,
        children_visits=stats.children_visits.astype(jnp.int32),
        children_rewards=read_children(tree.rewards),
        children_discounts=read_children(tree.discounts),
        children_values=read_children(stats.node_values),
        embeddings=tree.embeddings,
        root_invalid_actions=tree.root_invalid_actions,
        extra_data=tree.extra_data,
    )


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


class QTransformRule(Rule):
    """A rule with a qtransform; it runs in kernels if the qtransform is one of mctx's."""

    qtransform: QTransform

    @property
    def in_kernels(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the qtransform is one of mctx's."""
        return has_row_transform(self.qtransform)


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
