"""Kept trees: a search that goes on from what an earlier one found below the move played."""

import chex
import jax
import jax.numpy as jnp

from dualmctx.policies.root import forbid_logits, forbid_probabilities
from dualmctx.search.arrays import batched_scatter, expand_mask
from dualmctx.search.subtree import BY_NODE, below
from dualmctx.search.tree import Tree, TreeStats, is_legal, replace_stats, slot_actions


def insert_subtree(
    fresh: Tree,
    kept: Tree,
    invalid_actions: chex.Array | None,
    *,
    reuse_capacity: int,
) -> Tree:
    """Puts kept trees in the place of fresh ones, for the elements that have a kept tree.

    At a kept root, actions that are not allowed lose their prior, their statistics and the nodes
    below them. A kept root that the first layer has not visited counts as evaluated there, like a
    fresh one: the node's raw value is what the small tree adopts.

    Args:
      fresh: trees that hold newly evaluated roots.
      kept: what `get_subtree` returned; a tree of zeros stands for no tree.
      invalid_actions: `[B, A]` true for the game's actions that are not allowed at the roots.
      reuse_capacity: number of nodes that the policy keeps.

    Returns:
      The trees, with the capacity of the fresh ones. Slots from `1 + reuse_capacity` on are empty.

    Raises:
      ValueError: when the kept trees are not such as the policy's own, in one line.
    """
    if reuse_capacity == 0 or kept.num_nodes != 1 + reuse_capacity:
        raise ValueError(
            f"search_tree has {kept.num_nodes} nodes; it must come from get_subtree with the "
            f"policy's reuse_capacity (here {reuse_capacity}), at least 1"
        )
    if _kind(kept) != _kind(fresh):
        raise ValueError(
            "search_tree is of another kind of search or another batch; it must be the policy's own"
        )
    is_invalid = _invalid_slots(kept, invalid_actions)
    visits = sum(stats.node_visits[:, Tree.ROOT_INDEX] for stats in kept.stats)
    has_action = jnp.any(is_legal(kept, Tree.ROOT_INDEX) & ~is_invalid, axis=-1)
    is_kept = (visits > 0) & has_action
    is_node = is_kept[:, None] & ~below(kept.parents, _invalid_children(kept, is_invalid))
    kept = _mask_root(kept, is_invalid)

    def pick(new: chex.Array, old: chex.Array) -> chex.Array:
        here = new[:, : old.shape[1]]
        return new.at[:, : old.shape[1]].set(jnp.where(expand_mask(is_node, old), old, here))

    root_invalid = is_invalid.astype(fresh.root_invalid_actions.dtype)
    tree = fresh.replace(
        **{name: jax.tree.map(pick, getattr(fresh, name), getattr(kept, name)) for name in BY_NODE},
        root_invalid_actions=jnp.where(is_kept[:, None], root_invalid, fresh.root_invalid_actions),
    )
    return _adopt_root(tree)


def _kind(tree: Tree) -> tuple:
    """Returns what trees must share to hold each other's nodes: all but the number of nodes."""
    nodes = {name: getattr(tree, name) for name in BY_NODE}
    shapes = [(x.shape[:1] + x.shape[2:], x.dtype) for x in jax.tree.leaves(nodes)]
    return tree.prior_is_logits, jax.tree.structure(nodes), shapes


def _invalid_slots(tree: Tree, invalid_actions: chex.Array | None) -> chex.Array:
    """Returns `[B, K]` bool, the root's slots that stand for actions that are not allowed."""
    if invalid_actions is None:
        return jnp.zeros(tree.root_invalid_actions.shape, bool)
    actions = slot_actions(tree)
    if actions is not None:
        at_root = actions[:, Tree.ROOT_INDEX]
        invalid_actions = jnp.take_along_axis(invalid_actions, at_root, axis=-1)
    return jnp.asarray(invalid_actions, bool)


def _invalid_children(tree: Tree, invalid_actions: chex.Array) -> chex.Array:
    """Returns `[B, N]` bool, the root's children by actions that are not allowed."""
    children = tree.children_index[:, Tree.ROOT_INDEX]
    is_invalid = invalid_actions & (children != Tree.UNVISITED)
    return batched_scatter(
        jnp.zeros(tree.parents.shape, bool), jnp.maximum(children, 0), is_invalid, is_invalid
    )


def _mask_root(tree: Tree, invalid_actions: chex.Array) -> Tree:
    """Takes actions that are not allowed out of the root's rows."""
    root = Tree.ROOT_INDEX
    forbid = forbid_logits if tree.prior_is_logits else forbid_probabilities
    prior = forbid(tree.children_prior[:, root], invalid_actions)

    def mask(array: chex.Array, empty: int = 0) -> chex.Array:
        return array.at[:, root].set(jnp.where(invalid_actions, empty, array[:, root]))

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


def _adopt_root(tree: Tree) -> Tree:
    """Counts the root as evaluated in the first layer, if only a later one has visited it."""
    first = tree.stats[0]
    is_new = first.node_visits[:, Tree.ROOT_INDEX] == 0

    def adopt(array: chex.Array | None, value: chex.Numeric) -> chex.Array | None:
        if array is None:
            return None
        old = array[:, Tree.ROOT_INDEX]
        return array.at[:, Tree.ROOT_INDEX].set(jnp.where(is_new, value, old))

    first = first.replace(
        node_visits=adopt(first.node_visits, 1),
        node_values=adopt(first.node_values, tree.raw_values[:, Tree.ROOT_INDEX]),
        path_visits=adopt(first.path_visits, 1),
        leaf_visits=adopt(first.leaf_visits, 1),
    )
    return replace_stats(tree, 0, first)
