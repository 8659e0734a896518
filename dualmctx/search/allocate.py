"""Allocation of search trees that hold only their roots."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.errors import UserError
from dualmctx.search.arrays import pair, smallest_type
from dualmctx.search.stats import TreeStats
from dualmctx.search.tree import NodeInit, Tree

# The largest number of edges that int32 indices can address in one tree.
_MAX_EDGES = 2**31 - 1
# The largest number up to which float32 holds every count.
_MAX_VISITS = 2**24


def allocate(
    root: NodeInit,
    embedding: Any,
    *,
    num_nodes: int,
    invalid_actions: Array,
    num_trees: int = 1,
    windowed: bool = False,
    is_kept: bool = False,
    num_virtual: int = 0,
    extra_data: Any = None,
    prior_is_logits: bool = False,
) -> Tree:
    """Allocates trees that hold only their root, with one visit in the first tree.

    Args:
      root: the evaluations of the roots; reward and discount are not used.
      embedding: `[B, ...]` the roots' embeddings.
      num_nodes: capacity N, including the root.
      invalid_actions: `[B, A]` 1 for actions that are not allowed at the root.
      num_trees: number of trees that share the nodes.
      windowed: whether to allocate the counters of a windowed backup.
      is_kept: whether a later search reuses the subtree of the move played. Visits may then exceed
        the capacity, and corrections between several trees need the nodes where simulations ended.
      num_virtual: the largest number of virtual visits of an action, in addition to its real ones.
      extra_data: `[B, ...]` passed on to mctx's selection rules.
      prior_is_logits: whether the priors are logits, see `Tree`.

    Returns:
      The trees. In all trees but the first, the root has no visits yet. The indices of children
      and, unless `is_kept`, their visits are int16 if the capacity allows it.

    Raises:
      ValueError: if the trees would have more edges than an int32 can number, or nodes than a
        float32 can count.
    """
    chex.assert_rank([root.prior, root.value], [2, 1])
    chex.assert_equal_shape([root.prior, invalid_actions])
    batch_size, num_actions = root.prior.shape
    if num_nodes * num_actions > _MAX_EDGES:
        raise UserError(
            f"{num_nodes} nodes of {num_actions} actions each are more than {_MAX_EDGES} edges;"
            " run fewer simulations or, with a policy that uses PUCT, set max_children"
        )
    shape = (batch_size, num_nodes)
    # Counts and sums need at least float32, even if the network uses a smaller type.
    raw_value = root.value.astype(jnp.promote_types(root.value.dtype, jnp.float32))
    dtype = raw_value.dtype
    if dtype == jnp.float32 and num_nodes > _MAX_VISITS:
        raise UserError(
            f"{num_nodes} nodes are more than the {_MAX_VISITS} visits that float32 can count;"
            " run fewer simulations"
        )
    index_type = smallest_type(num_nodes)
    visits_type = jnp.int32 if is_kept else smallest_type(num_nodes + num_virtual)
    counts_leaves = is_kept and num_trees > 1

    def empty(row: Array) -> Array:
        return jnp.zeros(shape + row.shape[1:], row.dtype).at[:, 0].set(row)

    def new_stats() -> TreeStats:
        counter = jnp.zeros(shape, jnp.int32) if windowed else None
        return TreeStats(
            node_stats=jnp.zeros((*shape, 2), dtype),
            children_visits=jnp.zeros((*shape, num_actions), visits_type),
            children_qvalues=jnp.zeros((*shape, num_actions), dtype),
            path_visits=counter,
            heights=counter,
            leaf_visits=jnp.zeros(shape, jnp.int32) if counts_leaves else None,
        )

    def count_root(counter: Array | None) -> Array | None:
        return None if counter is None else counter.at[:, 0].set(1)

    first = new_stats()
    first = first.replace(
        node_stats=first.node_stats.at[:, 0].set(pair(jnp.ones(batch_size, dtype), raw_value)),
        path_visits=count_root(first.path_visits),
        leaf_visits=count_root(first.leaf_visits),
    )
    return Tree(
        edges=jnp.full(shape, Tree.NO_PARENT, jnp.int32),
        transitions=empty(jnp.tile(jnp.array([0.0, 1.0], dtype), (batch_size, 1))),
        children_index=jnp.full((*shape, num_actions), Tree.UNVISITED, index_type),
        children_prior=empty(root.prior),
        raw_values=empty(raw_value),
        embeddings=jax.tree.map(empty, embedding),
        stats=(first, *(new_stats() for _ in range(num_trees - 1))),
        root_invalid_actions=invalid_actions,
        extra_data=extra_data,
        prior_is_logits=prior_is_logits,
    )
