"""New nodes: the roots of new trees, and the nodes that one batched evaluation adds."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.errors import UserError
from dualmctx.search.arrays import (
    batched_scatter,
    by_edge,
    expand_mask,
    pair,
    smallest_type,
    write_slot,
    write_slot_pair,
)
from dualmctx.search.keys import repeat_key
from dualmctx.search.node import EvaluateFn, LastEdge, NodeInit
from dualmctx.search.tree import Tree, TreeStats, edge_index, get_state
from dualmctx.types import Params

# The largest number of edges that int32 indices can address in one tree.
_MAX_EDGES = 2**31 - 1
# The largest number up to which float32 holds every count.
_MAX_VISITS = 2**24


def allocate(
    prior: Array,
    value: Array,
    embedding: Any,
    *,
    num_nodes: int,
    invalid_actions: Array | None = None,
    num_trees: int = 1,
    windowed: bool = False,
    is_kept: bool = False,
    num_virtual: int = 0,
    extra_data: Any = None,
    prior_is_logits: bool = False,
) -> Tree:
    """Allocates trees that hold only their root, with one visit in the first tree.

    Args:
      prior: `[B, A]` priors of the roots, as in `NodeInit`.
      value: `[B]` values of the roots.
      embedding: `[B, ...]` the roots' embeddings.
      num_nodes: capacity N, including the root.
      invalid_actions: `[B, A]` 1 for actions that are not allowed at the root; `None` for none.
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
    chex.assert_rank([prior, value], [2, 1])
    invalid_actions = jnp.zeros_like(prior) if invalid_actions is None else invalid_actions
    chex.assert_equal_shape([prior, invalid_actions])
    batch_size, num_actions = prior.shape
    shape = (batch_size, num_nodes)
    # Counts and sums need at least float32, even if the network uses a smaller type.
    raw_value = value.astype(jnp.promote_types(value.dtype, jnp.float32))
    dtype = raw_value.dtype
    _check_size(num_nodes, num_actions, dtype)
    index_type = smallest_type(num_nodes)
    visits_type = jnp.int32 if is_kept else smallest_type(num_nodes + num_virtual)
    leaves = is_kept and num_trees > 1

    def empty(row: Array) -> Array:
        return jnp.zeros(shape + row.shape[1:], row.dtype).at[:, 0].set(row)

    edges = (*shape, num_actions)
    stats = [_empty_stats(edges, visits_type, dtype, windowed, leaves) for _ in range(num_trees)]
    stats[0] = stats[0].replace(
        node_stats=stats[0].node_stats.at[:, 0].set(pair(jnp.ones(batch_size, dtype), raw_value)),
        path_visits=_count_root(stats[0].path_visits),
        leaf_visits=_count_root(stats[0].leaf_visits),
    )
    return Tree(
        edges=jnp.full(shape, Tree.NO_PARENT, jnp.int32),
        transitions=empty(jnp.tile(jnp.array([0.0, 1.0], dtype), (batch_size, 1))),
        children_index=jnp.full((*shape, num_actions), Tree.UNVISITED, index_type),
        children_prior=empty(prior),
        raw_values=empty(raw_value),
        embeddings=jax.tree.map(empty, embedding),
        stats=tuple(stats),
        root_invalid_actions=invalid_actions,
        extra_data=extra_data,
        prior_is_logits=prior_is_logits,
    )


def _check_size(num_nodes: int, num_actions: int, dtype: Any) -> None:
    if num_nodes * num_actions > _MAX_EDGES:
        raise UserError(
            f"{num_nodes} nodes of {num_actions} actions each are more than {_MAX_EDGES} edges;"
            " run fewer simulations or, with a policy that uses PUCT, set max_children"
        )
    if dtype == jnp.float32 and num_nodes > _MAX_VISITS:
        raise UserError(
            f"{num_nodes} nodes are more than the {_MAX_VISITS} visits that float32 can count;"
            " run fewer simulations"
        )


def _empty_stats(
    edges: tuple[int, int, int], visits_type: Any, dtype: Any, windowed: bool, counts_leaves: bool
) -> TreeStats:
    """Allocates the statistics of one tree, whose edges have a shape `(B, N, A)`."""
    shape = edges[:2]
    counter = jnp.zeros(shape, jnp.int32) if windowed else None
    return TreeStats(
        node_stats=jnp.zeros((*shape, 2), dtype),
        children_visits=jnp.zeros(edges, visits_type),
        children_qvalues=jnp.zeros(edges, dtype),
        path_visits=counter,
        heights=counter,
        leaf_visits=jnp.zeros(shape, jnp.int32) if counts_leaves else None,
    )


def _count_root(counter: Array | None) -> Array | None:
    return None if counter is None else counter.at[:, 0].set(1)


class Leaves(NamedTuple):
    """The nodes where the simulations of a step end; `[B, K]` each.

    The simulations of a tree are its first columns, in the order of selection.

    Attributes:
      parent: int32, the node from which the last edge of the path starts.
      action: int32, the action of that edge.
      node: int32, the node to which it leads.
      depth: int32, the number of edges, at least 1; -1 in columns without a simulation.
      is_new: bool, whether the node has yet to be evaluated.
    """

    parent: Array
    action: Array
    node: Array
    depth: Array
    is_new: Array

    @property
    def num_simulations(self) -> Array:
        """`[B]` int32, the simulations of each tree."""
        return jnp.sum(self.depth >= 0, axis=-1, dtype=jnp.int32)


def needs_node(path: LastEdge, is_active: Array | None = None) -> Array:
    """Returns `[B]` bool, paths that end with an edge into a node that does not exist yet.

    Args:
      path: the last edge of each path.
      is_active: `[B]` bool, elements that may change; all if `None`.
    """
    is_new = path.child == Tree.UNVISITED
    return is_new if is_active is None else is_new & is_active


def expand(
    params: Params,
    rng_key: Array,
    tree: Tree,
    evaluate_fn: EvaluateFn,
    path: LastEdge,
    node_index: Array | int,
    is_active: Array | None = None,
) -> tuple[Tree, NodeInit]:
    """Evaluates the state at the end of each path in one batched call and stores its embedding.

    Args:
      params: passed on to `evaluate_fn`.
      rng_key: consumed by `evaluate_fn`.
      tree: the trees.
      evaluate_fn: plays the paths' last actions and evaluates the resulting states.
      path: the last edge of each path.
      node_index: scalar, the slot for new nodes, which stays empty in the other elements.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      The trees with the new embeddings; and the evaluations, used only where `needs_node` is true.
    """
    is_new = needs_node(path, is_active)
    state = get_state(tree, path.parent)
    if is_active is None:
        new, embedding = evaluate_fn(params, rng_key, path.action, state)
    else:
        # `is_active` is given when some elements have no node left for a later tree to evaluate.
        # Their paths nearly always end at terminal nodes, which need no evaluation.
        is_needed = jnp.any(is_new)
        new, embedding = _evaluate_if(is_needed, evaluate_fn, params, rng_key, path.action, state)
    chex.assert_shape(new.prior, (path.action.shape[0], tree.num_actions))
    chex.assert_shape([new.value, new.reward, new.discount], path.action.shape)

    def write(array: Array, row: Array) -> Array:
        return write_slot(array, node_index, _empty_unless(is_new, row, array.dtype))

    return tree.replace(embeddings=jax.tree.map(write, tree.embeddings, embedding)), new


def insert_node(
    tree: Tree,
    path: LastEdge,
    new: NodeInit,
    node_index: Array | int,
    is_active: Array | None = None,
) -> tuple[Tree, Array]:
    """Creates the node at the end of each path, unless it exists already.

    All elements of the batch write to the same slot, so the write is a slice update in place. If a
    path ends at an existing node, the slot stays empty in that element.

    Args:
      tree: the trees.
      path: the last edge of each path.
      new: the evaluations at the ends of the paths.
      node_index: scalar, an empty slot, which the new node takes.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      The trees, without the new embeddings; and `[B]` int32, the nodes at the ends of the paths
      (undefined where inactive). New nodes have no visits yet; the backup adds the first one.
    """
    is_new = needs_node(path, is_active)
    leaf = jnp.where(is_new, node_index, path.child)
    edge = edge_index(tree, path.parent, path.action)
    children_index = batched_scatter(by_edge(tree.children_index), edge, leaf)

    def write(array: Array, row: Array, empty: Any = 0) -> Array:
        return write_slot(array, node_index, _empty_unless(is_new, row, array.dtype, empty))

    reward, discount = (_empty_unless(is_new, x, x.dtype) for x in (new.reward, new.discount))
    tree = tree.replace(
        edges=write(tree.edges, edge, Tree.NO_PARENT),
        transitions=write_slot_pair(tree.transitions, node_index, reward, discount),
        children_index=children_index.reshape(tree.children_index.shape),
        children_prior=write(tree.children_prior, new.prior),
        raw_values=write(tree.raw_values, new.value),
    )
    return tree, jnp.maximum(leaf, 0)


def _empty_unless(is_new: Array, row: Array, dtype: Any, empty: Any = 0) -> Array:
    """Returns `[B, ...]` rows of a type, with the entry of an empty slot where not new."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):  # Random keys cannot be converted.
        return jnp.where(expand_mask(is_new, row), row, jnp.zeros((), dtype))
    return jnp.where(expand_mask(is_new, row), row.astype(dtype), jnp.asarray(empty, dtype))


def _evaluate_if(is_needed: Array, evaluate_fn: EvaluateFn, *inputs: Any) -> tuple[NodeInit, Any]:
    """Calls a function if a scalar is true; otherwise returns zeros of the same shapes."""

    def skip(*inputs: Any) -> Any:
        shapes = jax.eval_shape(evaluate_fn, *inputs)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    return jax.lax.cond(is_needed, evaluate_fn, skip, *inputs)


def link(tree: Tree, path: LastEdge, node: Array, is_new: Array) -> Tree:
    """Links new nodes to their parents, and the parents to them."""
    edge = edge_index(tree, path.parent, path.action)
    children_index = batched_scatter(by_edge(tree.children_index), edge, node, is_new)
    return tree.replace(
        edges=batched_scatter(tree.edges, node, edge, is_new),
        children_index=children_index.reshape(tree.children_index.shape),
    )


def expand_leaves(
    params: Params, rng_key: Array, tree: Tree, evaluate_fn: EvaluateFn, leaves: Leaves
) -> Tree:
    """Evaluates the leaves of a step in one call and writes each new leaf to its slot.

    Args:
      params: passed on to `evaluate_fn`.
      rng_key: consumed by `evaluate_fn`.
      tree: the trees.
      evaluate_fn: plays actions and evaluates the resulting states, `[B·K]` at once. Its results
        for leaves that are not new, and for columns without a simulation, are not used.
      leaves: `[B, K]` leaves.

    Returns:
      The trees; slots without a new leaf stay empty.
    """
    shape = leaves.node.shape
    state = get_state(tree, leaves.parent)
    state = jax.tree.map(lambda x: x.reshape(shape[0] * shape[1], *x.shape[2:]), state)
    keys = repeat_key(rng_key, shape[1])
    new, embedding = evaluate_fn(params, keys, leaves.action.reshape(-1), state)
    chex.assert_shape(new.prior, (shape[0] * shape[1], tree.num_actions))
    chex.assert_shape([new.value, new.reward, new.discount], (shape[0] * shape[1],))

    def write(array: Array, rows: Array) -> Array:
        rows = rows.reshape(*shape, *rows.shape[1:])
        return batched_scatter(array, leaves.node, rows, leaves.is_new)

    embeddings: Any = jax.tree.map(write, tree.embeddings, embedding)
    return tree.replace(
        transitions=write(tree.transitions, pair(new.reward, new.discount)),
        children_prior=write(tree.children_prior, new.prior),
        raw_values=write(tree.raw_values, new.value),
        embeddings=embeddings,
    )
