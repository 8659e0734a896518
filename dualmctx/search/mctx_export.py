"""Our trees as mctx's, for tools that were written for mctx."""

import chex
import jax.numpy as jnp
import mctx

from dualmctx.search.tree import Tree, gather_children


def to_mctx(tree: Tree, tree_index: int = 0) -> mctx.Tree:
    """Exports one layer as an `mctx.Tree`, for tools that were written for mctx.

    Args:
      tree: trees after a search.
      tree_index: the layer to export. Nodes outside it appear as unvisited.

    Returns:
      The same trees in mctx's arrays. Probabilities are turned into logits, with the lowest finite
      number for illegal actions; logits stay. Slots that hold no node are zero, or -1 where there
      is an index, as in mctx; so are the priors of nodes outside the layer. Nothing stands below a
      terminal node, where mctx would have gone on.
    """
    prior, stats = tree.children_prior, tree.stats[tree_index]
    if not tree.prior_is_logits:
        limits = jnp.finfo(prior.dtype)
        logits = jnp.log(jnp.maximum(prior, limits.tiny))
        masked = jnp.where(prior > 0, logits, limits.min)
        prior = jnp.where(stats.node_visits[..., None] > 0, masked, 0)
    is_child = stats.children_visits > 0

    def of_children(array: chex.Array) -> chex.Array:
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
        children_rewards=of_children(tree.rewards),
        children_discounts=of_children(tree.discounts),
        children_values=of_children(stats.node_values),
        embeddings=tree.embeddings,
        root_invalid_actions=tree.root_invalid_actions,
        extra_data=tree.extra_data,
    )
