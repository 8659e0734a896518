"""search-contempt's rule: at one side's nodes, actions are drawn from counts that are frozen."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather, batched_scatter
from dualmctx.search.keys import FROZEN, node_keys
from dualmctx.search.select import argmax
from dualmctx.search.tree import Tree, edge_into, get_children, replace_stats
from dualmctx.types import SelectFn, TrackFn


class Frozen(NamedTuple):
    """What `TreeStats.tracked` holds of each node.

    Attributes:
      visits: `[B, N, A]` N_scl(s, a), the visits of the children, which follow those of the layer
        until they sum to |N_scl|; kept of every node, read at those of one side.
      sides: `[B, N]` int8, 1 where the root's player is to move and -1 where the opponent is; at
        terminal nodes nothing in particular.
    """

    visits: chex.Array
    sides: chex.Array


def sample_frozen(select_fn: SelectFn, limit: int, temperature: float) -> SelectFn:
    """Makes a rule sample from the frozen counts at the nodes of one side that are frozen.

    Args:
      select_fn: the rule at all other nodes.
      limit: N_scl; positive for the opponent's nodes, negative for one's own but the root.
      temperature: T, positive.

    Returns:
      The selection function; it reads the `Frozen` of the first layer.

    Source: Joshi 2025, section 3.
    """

    def select(rng_key: Any, tree: Tree, node_index: chex.Array, depth: Any) -> chex.Array:
        frozen: Frozen = tree.stats[0].tracked
        visits = batched_gather(frozen.visits, node_index).astype(jnp.int32)
        is_side = batched_gather(frozen.sides, node_index) == -jnp.sign(limit)
        is_full = jnp.sum(visits, axis=-1) >= abs(limit)
        samples = is_side & is_full & (node_index != Tree.ROOT_INDEX)
        choice = select_fn(rng_key, tree, node_index, depth)

        def sample(choice: chex.Array) -> chex.Array:
            keys = node_keys(rng_key, FROZEN, depth, visits.shape[0])
            return jnp.where(samples, draw(keys, visits, temperature), choice)

        # Where the players take turns, no tree has such a node at every other depth.
        return jax.lax.cond(jnp.any(samples), sample, lambda choice: choice, choice)

    return select


def draw(rng_keys: chex.PRNGKey, visits: chex.Array, temperature: float) -> chex.Array:
    """Draws `[B]` int32 actions in proportion to `[B, A]` visits^(1/T); consumes `[B]` keys.

    An action without visits is never drawn where there is one with visits.
    """
    where = jax.vmap(jax.random.uniform)(rng_keys)[:, None]
    most = jnp.max(visits, axis=-1, keepdims=True)
    # Of the largest, as powers of counts overflow at low temperatures.
    weights = (visits / jnp.maximum(most, 1)) ** (1 / temperature)
    # Sums may be off in the last bit, so only actions with visits are looked at.
    sums = jnp.where(visits > 0, jnp.cumsum(weights, axis=-1), 0)
    return argmax(sums > where * jnp.max(sums, axis=-1, keepdims=True))


def follow_visits(limit: int) -> TrackFn:
    """Makes what keeps `Frozen` after a backup, in scalars and rows.

    The counts of each node on the path become the visits of its children as long as these sum to at
    most the limit. A simulation adds at most one, so they end as what the visits were when they
    summed to it; and where a window left the visits as they were, nothing changes.

    Args:
      limit: N_scl, not 0.

    Returns:
      The function; it writes the `Frozen` of the first layer.
    """

    def track(tree: Tree, leaf: chex.Array) -> Tree:
        stats = tree.stats[0]
        edge = edge_into(tree, leaf)
        side = batched_gather(stats.tracked.sides, edge.parent) * jnp.sign(edge.discount)

        def body(carry: tuple) -> tuple:
            kept, node = carry
            climbs = node != Tree.NO_PARENT
            inside = jnp.maximum(node, 0)
            visits = get_children(tree, inside).visits
            changes = climbs & (jnp.sum(visits, axis=-1) <= abs(limit))
            kept = batched_scatter(kept, inside, visits, changes)
            return kept, jnp.where(climbs, edge_into(tree, inside).parent, node)

        carry = (stats.tracked.visits, edge.parent)
        visits = jax.lax.while_loop(lambda c: jnp.any(c[1] != Tree.NO_PARENT), body, carry)[0]
        frozen = Frozen(visits, batched_scatter(stats.tracked.sides, leaf, side))
        return replace_stats(tree, 0, stats.replace(tracked=frozen))

    return track


def take_sides(kept: Tree) -> tuple[chex.Array, Tree]:
    """Takes what `Frozen` holds out of kept trees.

    Args:
      kept: what `get_subtree` returned; a tree of zeros stands for no tree.

    Returns:
      `[B, K]` int8 the sides, as the new roots' players see them; and the trees without `Frozen`.

    Raises:
      ValueError: when the kept trees hold no `Frozen`, in one line.
    """
    stats = kept.stats[0]
    if not isinstance(stats.tracked, Frozen):
        raise ValueError("search_tree is of another kind of search; it must be the policy's own")
    sides = stats.tracked.sides
    own = sides * sides[:, Tree.ROOT_INDEX, None]
    return own, replace_stats(kept, 0, stats.replace(tracked=None))


def start_frozen(tree: Tree, kept_sides: chex.Array | None = None) -> Tree:
    """Starts to keep `Frozen` in the first layer.

    Args:
      tree: trees before a search; those that hold more than a root start with its visits, and so
        with nodes frozen that have more of them than the limit.
      kept_sides: `[B, K]` what `take_sides` took out of the trees' first K nodes, if these were
        kept.

    Returns:
      The trees.
    """
    stats = tree.stats[0]
    sides = jnp.zeros(tree.edges.shape, jnp.int8)
    if kept_sides is not None:
        sides = sides.at[:, : kept_sides.shape[1]].set(kept_sides)
    # Of a root that was not kept, or had no tree, nothing is known.
    sides = sides.at[:, Tree.ROOT_INDEX].set(1)
    return replace_stats(tree, 0, stats.replace(tracked=Frozen(stats.children_visits, sides)))
