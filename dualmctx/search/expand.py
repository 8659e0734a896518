"""Expansion: write one new leaf into every tree, or evaluate many leaves at once."""

import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather, batched_scatter, by_edge, expand_mask, pair
from dualmctx.search.keys import repeat_key
from dualmctx.search.tree import Tree, edge_index, edge_into, get_state
from dualmctx.types import EvaluateFn, NodeInit, Params, Path, RefineFn


def expand(
    params: Params,
    rng_key: chex.PRNGKey,
    tree: Tree,
    evaluate_fn: EvaluateFn,
    path: Path,
    node_index: chex.Numeric,
    is_active: chex.Array | None = None,
) -> tuple[Tree, chex.Array]:
    """Creates the node at the end of each path, unless it exists already.

    Every element of the batch writes at the same index, which makes the write a slice update in
    place. Elements whose path ends at an existing node leave that slot empty.

    Args:
      params: passed on to `evaluate_fn`.
      rng_key: consumed by `evaluate_fn`.
      tree: the trees.
      evaluate_fn: plays the paths' last actions and evaluates the states reached.
      path: ends of the walks.
      node_index: scalar, the empty slot for the new node.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      The trees, and `[B]` int32 the nodes at the ends of the paths (of no meaning where inactive).
      The new nodes have no visits yet; a backup counts the first.
    """
    is_new = path.child == Tree.UNVISITED
    state = get_state(tree, path.parent)
    if is_active is None:
        new, embedding = evaluate_fn(params, rng_key, path.action, state)
    else:
        is_new &= is_active
        # Few are active where a later tree runs out of nodes to evaluate: nearly always because its
        # walks end at terminal nodes, and then there is nothing to evaluate.
        is_needed = jnp.any(is_new)
        new, embedding = _evaluate_if(is_needed, evaluate_fn, params, rng_key, path.action, state)
    _check_shapes(new, path.action.shape[0], tree.num_actions)
    leaf = jnp.where(is_new, node_index, path.child)
    edge = edge_index(tree, path.parent, path.action)
    children_index = batched_scatter(by_edge(tree.children_index), edge, leaf)

    def write(array: chex.Array, row: chex.Array, empty: Any = 0) -> chex.Array:
        row = jnp.where(
            expand_mask(is_new, row), row.astype(array.dtype), jnp.asarray(empty, array.dtype)
        )
        return jax.lax.dynamic_update_slice_in_dim(array, row[:, None], node_index, axis=1)

    tree = tree.replace(
        edges=write(tree.edges, edge, Tree.NO_PARENT),
        transitions=write(tree.transitions, pair(new.reward, new.discount)),
        children_index=children_index.reshape(tree.children_index.shape),
        children_prior=write(tree.children_prior, new.prior),
        raw_values=write(tree.raw_values, new.value),
        embeddings=jax.tree.map(write, tree.embeddings, embedding),
    )
    return tree, jnp.maximum(leaf, 0)


def frontier(tree: Tree, num_leaves: int, *, tree_index: int) -> tuple[chex.Array, chex.Array]:
    """Picks the nodes that a tree should evaluate next, by the priorities of the trees before it.

    The priority of a node is the number of simulations of the previous layer that passed through
    it; among equals, of the layer before that one, and so on; last, the older node goes first. In
    none of them a node's count exceeds its parent's, and children are younger, so the best
    `num_leaves` nodes are connected to what the layer has evaluated: taking them one after the
    other would give the same ones.

    Args:
      tree: the trees.
      num_leaves: K, how many to pick.
      tree_index: the tree to pick for; at least 1.

    Returns:
      `[B, K]` int32 nodes, best first, and `[B, K]` bool, false where there was no node left: then
      the layer has visited every node that there is.

    Source: Lan et al. 2019 (MPV-MCTS), Algorithm 2; the count that a window does not cut short is
    our reading, as the windowed count saturates near the root. So is the order for more than two
    trees, of which Kadam, Xu, Lieberherr 2021, section 6, say that there could be some.
    """
    others = (*tree.stats[:tree_index], *tree.stats[tree_index + 1 :])
    is_node = functools.reduce(jnp.logical_or, [stats.node_visits > 0 for stats in others])
    is_waiting = is_node & (tree.stats[tree_index].node_visits == 0)

    counts = [
        before.node_visits if before.path_visits is None else before.path_visits
        for before in reversed(tree.stats[:tree_index])
    ]
    order = _sort_nodes(counts, is_waiting)[:, :num_leaves]
    return order, batched_gather(is_waiting, order)


def _sort_nodes(counts: list[chex.Array], is_waiting: chex.Array) -> chex.Array:
    """Sorts `[B, N]` nodes: those waiting first, by counts, the first of which counts most."""
    num_nodes = is_waiting.shape[1]
    nodes = jax.lax.broadcasted_iota(jnp.int32, is_waiting.shape, 1)
    radices = [jnp.max(count) + 1 for count in counts]

    def sort_one_key() -> chex.Array:
        key = jnp.zeros_like(nodes)
        for count, radix in zip(counts, radices, strict=True):
            key = radix * key + count
        key = jnp.where(is_waiting, -key, 1) * num_nodes + nodes
        return jnp.mod(jax.lax.sort(key, dimension=1, is_stable=False), num_nodes)

    def sort_several_keys() -> chex.Array:
        keys = [jnp.where(is_waiting, -count, 1) for count in counts]
        operands = (*keys, nodes)
        return jax.lax.sort(operands, dimension=1, num_keys=len(keys), is_stable=True)[-1]

    # XLA's CPU sorts numbers many times as fast as tuples. Counts of one search nearly always fit
    # into a number, but kept trees bring theirs along, and 50,000 nodes are too many.
    span = functools.reduce(jnp.multiply, [radix.astype(jnp.float32) for radix in radices])
    fits = span * num_nodes < 2**30
    return jax.lax.cond(fits, sort_one_key, sort_several_keys)


def refine(
    params: Params,
    rng_key: chex.PRNGKey,
    tree: Tree,
    refine_fn: RefineFn,
    leaves: chex.Array,
    is_valid: chex.Array,
    *,
    to_prior: Any,
    value_mix: float,
    prior_mix: float,
) -> tuple[Tree, chex.Array]:
    """Evaluates leaves by a later head, in one call, and mixes the result into the nodes.

    Formula:
        V ← α V + (1 − α) v;   P ← β P + (1 − β) p

    where v and p are the later head's. Terminal nodes keep their exact value.

    Args:
      params: passed on to `refine_fn`.
      rng_key: consumed by `refine_fn`.
      tree: the trees.
      refine_fn: the later head, called on all `[B·K, ...]` embeddings at once.
      leaves: `[B, K]` int32, distinct nodes in each row.
      is_valid: `[B, K]` bool, false for leaves to ignore.
      to_prior: turns `[..., A]` logits into the form of `Tree.children_prior`.
      value_mix: α in [0, 1], weight of the value that the node has.
      prior_mix: β in [0, 1], likewise for the prior.

    Returns:
      The trees with new `raw_values` and `children_prior`, the same in every layer; statistics
      are unchanged. And `[B, K]`, by how much each raw value changed (0 for ignored leaves).

    Source: Kadam, Xu, Lieberherr 2021, section 3 ("the policy and the value for that state would
    be the same").
    """
    shape = leaves.shape
    embedding = jax.tree.map(lambda x: batched_gather(x, leaves), tree.embeddings)
    embedding = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), embedding)
    logits, value = refine_fn(params, repeat_key(rng_key, shape[1]), embedding)
    chex.assert_shape(logits, (shape[0] * shape[1], tree.num_actions))
    old_value, old_prior = (
        batched_gather(tree.raw_values, leaves),
        batched_gather(tree.children_prior, leaves),
    )
    mixed_value = value_mix * old_value + (1 - value_mix) * value.reshape(shape)
    prior = to_prior(logits).reshape(*shape, tree.num_actions).astype(old_prior.dtype)
    mixed_prior = prior_mix * old_prior + (1 - prior_mix) * prior
    is_mixed = is_valid & (edge_into(tree, leaves).discount != 0)
    batch = jnp.arange(shape[0])[:, None]
    target = jnp.where(is_mixed, leaves, tree.num_nodes)
    tree = tree.replace(
        raw_values=tree.raw_values.at[batch, target].set(mixed_value, mode="drop"),
        children_prior=tree.children_prior.at[batch, target].set(mixed_prior, mode="drop"),
    )
    return tree, jnp.where(is_mixed, mixed_value - old_value, 0)


def _evaluate_if(
    is_needed: chex.Array, evaluate_fn: EvaluateFn, *inputs: Any
) -> tuple[NodeInit, Any]:
    """Calls a function where a scalar says so, and makes zeros of the same shapes elsewhere."""

    def skip(*inputs: Any) -> Any:
        shapes = jax.eval_shape(evaluate_fn, *inputs)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    return jax.lax.cond(is_needed, evaluate_fn, skip, *inputs)


def _check_shapes(new: NodeInit, batch_size: int, num_actions: int) -> None:
    chex.assert_shape(new.prior, (batch_size, num_actions))
    chex.assert_shape([new.value, new.reward, new.discount], (batch_size,))
