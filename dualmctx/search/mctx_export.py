"""Export of a tree as an `mctx.Tree`, for tools that were written for mctx."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.search.tree import Tree, check_tree, gather_children


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
