"""RAVE, all moves as first: what was learnt of an action below a node counts at the node too."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather, batched_scatter, pair
from dualmctx.search.select import QvaluesFn, mean_qvalues
from dualmctx.search.tree import Tree, edge_into, get_children, replace_stats
from dualmctx.types import TrackFn


def rave_qvalues(rave_visits: float, qvalues_fn: QvaluesFn = mean_qvalues) -> QvaluesFn:
    """Makes Q lean on the all-moves-as-first mean, the less the more often the node was visited.

    Formula, for actions with Ñ(s,a) > 0, visited at s or not; others stay as they are:
        Q*(s,a) = (1 − β) Q(s,a) + β Q̃(s,a),   β = sqrt(k / (3 Σ_b N(s,b) + k))

    Args:
      rave_visits: k, positive: the number of visits at which the two weigh the same.
      qvalues_fn: makes Q.

    Returns:
      What stands for Q in a selection rule. It reads `TreeStats.children_rave`.

    Source: Gelly and Silver 2011, "Monte-Carlo tree search and rapid action value estimation in
    computer Go", section 5, the hand-selected schedule.
    """

    def qvalues(tree: Tree, node_index: chex.Array, tree_index: int) -> chex.Array:
        mean = qvalues_fn(tree, node_index, tree_index)
        rave = batched_gather(tree.stats[tree_index].children_rave, node_index)
        visits = get_children(tree, node_index, tree_index).visits
        total = jnp.sum(visits, axis=-1, keepdims=True).astype(mean.dtype)
        beta = jnp.sqrt(rave_visits / (3 * total + rave_visits))
        return jnp.where(rave[..., 0] > 0, (1 - beta) * mean + beta * rave[..., 1], mean)

    return qvalues


def follow_rave(*, window: int | None, tree_index: int = 0) -> TrackFn:
    """Makes what keeps `TreeStats.children_rave` after a backup, a row a level.

    A simulation that passes a node s and ends with return G, as seen at s, adds G to every action
    that the player to move at s played on the path at s or below it, once each:
        Ñ ← Ñ + 1;   Q̃ ← Q̃ + (G − Q̃) / Ñ

    Who played an action follows from the signs of the discounts, so that a player may move twice,
    and the actions of players with different action spaces never mix. The rows written are those of
    the nodes whose edge of the path the backup updates.

    Args:
      window: edges of the backup, counted from the leaf; `None` for all.
      tree_index: the tree that is read and written.

    Returns:
      The function.

    Source: Gelly and Silver 2011, section 4. There a simulation goes on to the end of the game by a
    playout policy; here it ends at the leaf, so the path in the tree is all there is.
    """

    def track(tree: Tree, leaf: chex.Array) -> Tree:
        stats = tree.stats[tree_index]
        actions = jnp.arange(tree.num_actions)[None]

        def body(carry: tuple) -> tuple:
            rave, node, value, mine, theirs, height = carry
            edge = edge_into(tree, jnp.maximum(node, 0))
            writes = (node != Tree.NO_PARENT) & (edge.index != Tree.NO_PARENT)
            if window is not None:
                writes &= height < window
            parent = jnp.maximum(edge.parent, 0)
            value = edge.reward + edge.discount * value
            changes_hands = edge.discount[:, None] < 0
            mine, theirs = (
                jnp.where(changes_hands, theirs, mine),
                jnp.where(changes_hands, mine, theirs),
            )
            mine |= actions == (edge.index - parent * tree.num_actions)[:, None]
            row = batched_gather(rave, parent)
            count, mean = row[..., 0] + 1, row[..., 1]
            new = pair(count, mean + (value[:, None] - mean) / count)
            rave = batched_scatter(rave, parent, jnp.where(mine[..., None], new, row), writes)
            goes_on = writes & (parent != Tree.ROOT_INDEX)
            node = jnp.where(goes_on, parent, Tree.NO_PARENT)
            return rave, node, value, mine, theirs, height + 1

        nothing = jnp.zeros((leaf.shape[0], tree.num_actions), bool)
        value = batched_gather(tree.raw_values, leaf)
        carry: Any = (stats.children_rave, leaf, value, nothing, nothing, jnp.int32(0))
        rave = jax.lax.while_loop(lambda c: jnp.any(c[1] != Tree.NO_PARENT), body, carry)[0]
        return replace_stats(tree, tree_index, stats.replace(children_rave=rave))

    return track
