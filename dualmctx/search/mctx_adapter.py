"""Adapter that runs selection rules written for mctx, unchanged, on this package's trees."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any, Protocol

import chex
import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.search.arrays import batched_gather
from dualmctx.search.keys import mctx_keys
from dualmctx.search.node import Node, RuleFn
from dualmctx.search.tree import edge_into, gather_children


class MctxRule(Protocol):
    """An action selection function of mctx: takes an unbatched key, tree, node and depth."""

    def __call__(self, rng_key: Array, tree: mctx.Tree, node_index: Any, depth: Any) -> Array:
        """Chooses an action."""
        ...


class MctxRootRule(Protocol):
    """A root action selection function of mctx: takes an unbatched key, tree and node."""

    def __call__(self, rng_key: Array, tree: mctx.Tree, node_index: Any) -> Array:
        """Chooses an action."""
        ...


class QTransform(Protocol):
    """A qtransform of mctx: maps an unbatched tree and a node to `[A]` scores."""

    def __call__(self, tree: mctx.Tree, node_index: Any) -> Array:
        """Transforms the Q-values of one node."""
        ...


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


def mctx_rule(rule: MctxRule) -> RuleFn:
    """Adapts a rule written for mctx, unchanged, to this package's trees.

    The rule gets an `mctx.Tree` with a single node, at index 0, and without embeddings; its logits
    are `Tree.children_prior`. A rule can therefore read only the data of the node at which it
    selects, which is all that mctx's own rules read. It can recognise the root by the depth.

    Args:
      rule: an action selection function with mctx's signature.

    Returns:
      The rule, which uses the same keys as mctx. For root rules, which take no depth, use
      `mctx_root_rule`.
    """

    def select(rng_key: Any, node: Node) -> Array:
        keys = mctx_keys(rng_key, node.batch_size, node.depth)
        return jax.vmap(rule, in_axes=(0, 0, None, None))(keys, node_view(node), 0, node.depth)

    return select


def mctx_root_rule(rule: MctxRootRule) -> RuleFn:
    """Adapts a rule that mctx calls only at the root, without a depth, to this package's trees.

    Args:
      rule: a root action selection function with mctx's signature.

    Returns:
      The rule, which uses the same keys as mctx; for `SearchSpec.root_rule`.
    """

    def with_depth(rng_key: Array, tree: mctx.Tree, node_index: Any, depth: Any) -> Array:
        del depth
        return rule(rng_key, tree, node_index)

    return mctx_rule(with_depth)
