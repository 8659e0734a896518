"""Subtree reuse in policies: a search continues with the subtree of the move played."""

from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.errors import UserError
from dualmctx.policies.root import forbid_logits, forbid_probabilities, legal_probabilities
from dualmctx.search.arrays import batched_gather, expand_mask, pair
from dualmctx.search.climb import Statistic, resume_statistics
from dualmctx.search.node import Node
from dualmctx.search.slots import to_slots
from dualmctx.search.subtree import NODE_FIELDS, find_descendants
from dualmctx.search.tree import Tree, TreeStats, replace_stats


def insert_subtree(
    tree: Tree,
    search_tree: Tree,
    invalid_actions: chex.Array | None,
    *,
    reuse_capacity: int,
    statistics: Sequence[Statistic] = (),
) -> Tree:
    """Inserts the subtrees of the previous search into new trees, for elements that have one.

    At the root of a subtree, invalid actions lose their prior, their statistics and the nodes below
    them; the visits and the value of the root still include their simulations. If only a later tree
    has visited that root, the first tree gets one visit with the raw value of the root, as for a
    new root.

    Args:
      tree: new trees, which hold their evaluated roots.
      search_tree: the result of `get_subtree`; an all-zero tree means that there is no subtree.
      invalid_actions: `[B, A]` true for the game's actions that are not allowed at the roots.
      reuse_capacity: the policy's option, the capacity of the subtrees, not counting their roots.
      statistics: the additional statistics of the first tree.

    Returns:
      The trees, with the capacity of the new ones. Slots from `1 + reuse_capacity` on are empty.

    Raises:
      ValueError: if the subtrees have another capacity, or come from another kind of search or
        another batch size.
    """
    # A tree that was read from the device is NumPy's.
    search_tree = jax.tree.map(jnp.asarray, search_tree)
    if search_tree.num_nodes != 1 + reuse_capacity:
        raise UserError(
            f"search_tree has {search_tree.num_nodes} nodes; it must come from get_subtree with the"
            f" policy's reuse_capacity (here {reuse_capacity})"
        )
    if _kind(search_tree) != _kind(tree):
        raise UserError(
            "search_tree is of another kind of search or another batch; it must be the policy's own"
        )
    is_invalid = _invalid_slots(search_tree, invalid_actions)
    visits = sum(stats.node_visits[:, Tree.ROOT_INDEX] for stats in search_tree.stats)
    has_action = jnp.any(Node(search_tree, Tree.ROOT_INDEX).legal & ~is_invalid, axis=-1)
    has_subtree = (visits > 0) & has_action
    is_dropped = find_descendants(search_tree.parents, _invalid_children(search_tree, is_invalid))
    is_node = has_subtree[:, None] & ~is_dropped
    search_tree = _mask_root(search_tree, is_invalid)

    def insert(new: chex.Array, old: chex.Array) -> chex.Array:
        first = new[:, : old.shape[1]]
        return new.at[:, : old.shape[1]].set(jnp.where(expand_mask(is_node, old), old, first))

    root_invalid = is_invalid.astype(tree.root_invalid_actions.dtype)
    root_invalid = jnp.where(has_subtree[:, None], root_invalid, tree.root_invalid_actions)
    fields = {
        name: jax.tree.map(insert, getattr(tree, name), getattr(search_tree, name))
        for name in NODE_FIELDS
    }
    tree = _visit_root(tree.replace(**fields, root_invalid_actions=root_invalid))
    return resume_statistics(tree, statistics)


def _kind(tree: Tree) -> tuple[Any, ...]:
    """Returns the properties that trees must share to hold each other's nodes."""
    nodes = {name: getattr(tree, name) for name in NODE_FIELDS}
    shapes = [(x.shape[:1] + x.shape[2:], x.dtype) for x in jax.tree.leaves(nodes)]
    return tree.prior_is_logits, jax.tree.structure(nodes), shapes


def _invalid_slots(tree: Tree, invalid_actions: chex.Array | None) -> chex.Array:
    """Returns `[B, C]` bool, the root's slots of invalid actions."""
    if invalid_actions is None:
        return jnp.zeros(tree.root_invalid_actions.shape, bool)
    return jnp.asarray(to_slots(tree, invalid_actions), bool)


def _invalid_children(tree: Tree, is_invalid: chex.Array) -> chex.Array:
    """Returns `[B, N]` bool, the root's children by invalid slots."""
    # An edge from the root has the number of its slot.
    is_child = tree.parents == Tree.ROOT_INDEX
    return is_child & batched_gather(is_invalid, jnp.where(is_child, tree.edges, 0))


def _mask_root(tree: Tree, is_invalid: chex.Array) -> Tree:
    """Removes invalid slots from the rows of the root."""
    root = Tree.ROOT_INDEX
    forbid = forbid_logits if tree.prior_is_logits else forbid_probabilities
    prior = forbid(tree.children_prior[:, root], is_invalid)

    def mask(array: chex.Array, empty: int = 0) -> chex.Array:
        return array.at[:, root].set(jnp.where(is_invalid, empty, array[:, root]))

    def mask_stats(stats: TreeStats) -> TreeStats:
        return stats.replace(
            children_visits=mask(stats.children_visits),
            children_qvalues=mask(stats.children_qvalues),
        )

    return tree.replace(
        children_index=mask(tree.children_index, Tree.UNVISITED),
        children_prior=tree.children_prior.at[:, root].set(prior),
        stats=tuple(mask_stats(stats) for stats in tree.stats),
    )


def _visit_root(tree: Tree) -> Tree:
    """Adds a visit of the root to the first tree, if only a later tree has visited it."""
    first = tree.stats[0]
    raw_value = tree.raw_values[:, Tree.ROOT_INDEX]
    is_new = first.node_visits[:, Tree.ROOT_INDEX] == 0

    def set_if_new(array: chex.Array | None, value: chex.Numeric) -> chex.Array | None:
        if array is None:
            return None
        old = array[:, Tree.ROOT_INDEX]
        return array.at[:, Tree.ROOT_INDEX].set(jnp.where(expand_mask(is_new, old), value, old))

    first = first.replace(
        node_stats=set_if_new(first.node_stats, pair(jnp.ones_like(raw_value), raw_value)),
        path_visits=set_if_new(first.path_visits, 1),
        leaf_visits=set_if_new(first.leaf_visits, 1),
    )
    return replace_stats(tree, 0, first)


def replace_root_prior(tree: Tree, root: mctx.RootFnOutput) -> Tree:
    """Gives the roots of reused trees the prior and the value of a newly evaluated root.

    Args:
      tree: trees with reused nodes; their priors are probabilities or logits.
      root: `[B]` roots over all A actions.

    Returns:
      The trees. The visits and the mean of the root do not change.
    """
    prior = to_slots(tree, root.prior_logits)
    if not tree.prior_is_logits:
        prior = legal_probabilities(prior, tree.root_invalid_actions)
    index, dtype = Tree.ROOT_INDEX, tree.children_prior.dtype
    return tree.replace(
        children_prior=tree.children_prior.at[:, index].set(prior.astype(dtype)),
        raw_values=tree.raw_values.at[:, index].set(root.value),
    )
