"""The search tree: one topology, and a layer of statistics for each tree that grows on it.

Statistics live on nodes, and a node is its incoming edge: `node_visits[b, n]` is both the visit
count of node n and N(s, a) of the edge that enters it. What selection reads of a node's children
stands in a row of the node as well, so that a rule reads a few rows side by side; a backup writes
both places, a scalar each, and never passes over a `[B, N, A]` array.
"""

import dataclasses
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.types import Embedding, Evaluation

T = TypeVar("T")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Layer:
    """The statistics of one tree. A node belongs to the tree iff its visit count is positive.

    Attributes:
      node_stats: `[B, N, 2]` float, side by side as a backup reads and writes both: visits (exact
        up to 2^24), the updates of the edge into the node, at the root 1 plus the updates of the
        edges that leave it; and the mean of their returns, seen by the player to move.
      children_visits: `[B, N, A]` int16 or int32, see `allocate`, visits of the children; 0 where
        there is no child.
      children_qvalues: `[B, N, A]` Q(s, a) = r + γ V(s'), seen by the player to move at s; 0 for
        unvisited actions.
      path_visits: `[B, N]` int32, simulations that passed through or ended at the node, never cut
        short by a window, 1 more at the root; `None` where the backup is full, as `node_visits` is
        the same then.
      heights: `[B, N]` int32, the largest number of edges by which a simulation went on below the
        node; `None` where the backup is full.
      leaf_visits: `[B, N]` int32, simulations that ended at the node, at the root its evaluation;
        `None` where nobody has to know, or the rest says it.
    """

    node_stats: chex.Array
    children_visits: chex.Array
    children_qvalues: chex.Array
    path_visits: Any = None
    heights: Any = None
    leaf_visits: Any = None

    @property
    def node_visits(self) -> chex.Array:
        """`[B, N]` int32, the visits of `node_stats`."""
        return self.node_stats[..., 0].astype(jnp.int32)

    @property
    def node_values(self) -> chex.Array:
        """`[B, N]`, the means of `node_stats`."""
        return self.node_stats[..., 1]

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some attributes, or `node_visits` or `node_values`, exchanged."""
        if not changes.keys().isdisjoint({"node_visits", "node_values"}):
            visits = changes.pop("node_visits", self.node_stats[..., 0])
            values = changes.pop("node_values", self.node_stats[..., 1])
            changes["node_stats"] = pair(visits, values)
        return dataclasses.replace(self, **changes)


class Children(NamedTuple):
    """What a layer knows of the children of one node of every tree; `[B, A]` each.

    Attributes:
      visits: N(s, a), 0 where there is no child.
      qvalues: Q(s, a), seen by the player to move at s; 0 for unvisited actions.
    """

    visits: chex.Array
    qvalues: chex.Array


class SearchSummary(NamedTuple):
    """The root of one layer, with the fields of mctx's summary.

    Attributes:
      visit_counts: `[B, A]` visits of the root's children.
      visit_probs: `[B, A]` the same as shares; uniform where nothing was visited.
      value: `[B]` value of the root, seen by the player to move.
      qvalues: `[B, A]` Q of the root's actions, 0 where unvisited.
    """

    visit_counts: chex.Array
    visit_probs: chex.Array
    value: chex.Array
    qvalues: chex.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tree(Generic[T]):
    """A batch of search trees that share one array of nodes.

    Attributes:
      edges: `[B, N]` int32, the edge into the node, parent · A + action; -1 for the root and for
        slots without a node.
      transitions: `[B, N, 2]` reward and discount of that edge; the discount is 0 at terminal nodes
        and 1 at the root.
      children_index: `[B, N, A]` int16, or int32 in trees of more than 32,767 nodes; -1 where there
        is no child.
      children_prior: `[B, N, A]` what the selection rule reads, see `Evaluation.prior`.
      raw_values: `[B, N]` value of the state before any search.
      embeddings: `[B, N, ...]` what `recurrent_fn` returned.
      layers: statistics, a layer a tree; Dual's are T_sub and T_full.
      root_invalid_actions: `[B, A]` 1 for actions that are not allowed at the root.
      extra_data: `[B, ...]` passed on to mctx's selection rules.
    """

    edges: chex.Array
    transitions: chex.Array
    children_index: chex.Array
    children_prior: chex.Array
    raw_values: chex.Array
    embeddings: Any
    layers: tuple[Layer, ...]
    root_invalid_actions: chex.Array
    extra_data: T

    ROOT_INDEX: ClassVar[int] = 0
    NO_PARENT: ClassVar[int] = -1
    UNVISITED: ClassVar[int] = -1

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some attributes exchanged; the packed ones also by their parts."""
        if not changes.keys().isdisjoint({"parents", "action_from_parent"}):
            parents = changes.pop("parents", self.parents)
            action = changes.pop("action_from_parent", self.action_from_parent)
            edges = parents * self.num_actions + action
            changes["edges"] = jnp.where(parents == Tree.NO_PARENT, Tree.NO_PARENT, edges)
        if not changes.keys().isdisjoint({"rewards", "discounts"}):
            rewards = changes.pop("rewards", self.rewards)
            changes["transitions"] = pair(rewards, changes.pop("discounts", self.discounts))
        return dataclasses.replace(self, **changes)

    @property
    def parents(self) -> chex.Array:
        """`[B, N]` int32, -1 for the root and for slots without a node."""
        return self.edges // self.num_actions  # which rounds down

    @property
    def action_from_parent(self) -> chex.Array:
        """`[B, N]` int32, -1 likewise."""
        has_edge = self.edges != Tree.NO_PARENT
        return jnp.where(has_edge, self.edges % self.num_actions, Tree.NO_PARENT)

    @property
    def rewards(self) -> chex.Array:
        """`[B, N]` reward of the edge into the node."""
        return self.transitions[..., 0]

    @property
    def discounts(self) -> chex.Array:
        """`[B, N]` discount of that edge."""
        return self.transitions[..., 1]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.children_index.shape[-1]

    @property
    def num_nodes(self) -> int:
        """N, the capacity; slots that no simulation used stay empty."""
        return self.edges.shape[-1]

    def summary(self, layer: int = 0) -> SearchSummary:
        """Summarises the root, as mctx's `Tree.summary` does, in one of the layers."""
        root = jnp.zeros(self.edges.shape[0], jnp.int32)
        children = get_children(self, root, layer)
        value = self.layers[layer].node_values[:, self.ROOT_INDEX]
        visit_counts = children.visits.astype(value.dtype)
        total = jnp.sum(visit_counts, axis=-1, keepdims=True)
        visit_probs = jnp.where(
            total > 0, visit_counts / jnp.maximum(total, 1), 1 / self.num_actions
        )
        return SearchSummary(visit_counts, visit_probs, value, children.qvalues)


# Beyond this many positions an int32 cannot index a flattened array.
_MAX_FLAT = 2**31 - 1


def _locate(array: chex.Array, index: chex.Array) -> tuple[Any, Any, chex.Array]:
    """Returns what to index of a `[B, N, ...]` array, with what, and an index outside of it.

    One index into the flattened array is cheaper to compute than a pair.
    """
    batch_size, num_nodes = array.shape[:2]
    batch = jnp.arange(batch_size, dtype=jnp.int32).reshape((-1,) + (1,) * (index.ndim - 1))
    # Different indices, as `put` promises that no two are the same.
    outside = jnp.arange(index.size, dtype=jnp.int32).reshape(index.shape)
    if batch_size * num_nodes + index.size > _MAX_FLAT:
        return array.at, (batch, index), num_nodes + outside
    flat = array.reshape(batch_size * num_nodes, *array.shape[2:])
    return flat.at, batch * num_nodes + index, batch_size * num_nodes + outside


def take(array: chex.Array, index: chex.Array | int) -> chex.Array:
    """Reads `[B, N, ...]` at `[B]` or `[B, K]` indices, giving `[B, ...]` or `[B, K, ...]`.

    One index for all is a slice, which needs no copy.
    """
    if isinstance(index, int):
        return array[:, index]
    at, where, _ = _locate(array, index)
    if index.size == 1 and not isinstance(where, tuple):
        # XLA would make slices of single reads and fuse them with writes, and so copy the array.
        where = jnp.repeat(where.reshape(1), 2)
    # Indices are valid by construction; promising it saves a clamp and a select an access.
    found = at[where].get(mode="promise_in_bounds")
    return found[: index.shape[0]].reshape(*index.shape, *array.shape[2:])


def put(
    array: chex.Array, index: chex.Array, value: chex.Array, where: chex.Array | bool = True
) -> chex.Array:
    """Writes values into `[B, N, ...]`; inside a jitted loop in place.

    Args:
      array: `[B, N, ...]`.
      index: `[B]` or `[B, K]` int32, where to write; different ones in each row.
      value: `[B, ...]` or `[B, K, ...]`.
      where: bool of the shape of `index`, false for what is not written.

    Returns:
      The array with the values written.
    """
    at, inside, outside = _locate(array, index)
    if isinstance(inside, tuple):
        inside = inside[0], jnp.where(where, inside[1], outside)
    else:
        inside = jnp.where(where, inside, outside)
    if index.size == 1 and not isinstance(inside, tuple):
        # As in `take`; the second write is dropped.
        inside = jnp.concatenate([inside.reshape(1), outside.reshape(1) + 1])
        value = jnp.repeat(value.reshape(1, *array.shape[2:]), 2, axis=0)
    new = at[inside].set(value.astype(array.dtype), mode="drop", unique_indices=True)
    return new.reshape(array.shape)


def pair(first: chex.Array, second: chex.Array) -> chex.Array:
    """Stacks two arrays along a new last axis, in the second one's type."""
    return jnp.stack([first.astype(second.dtype), second], axis=-1)


class Edge(NamedTuple):
    """The edges into `[B]` or `[B, K]` nodes; of the shape of these each.

    Attributes:
      parent: int32, -1 above the root.
      index: int32, where the edge stands in `by_edge` arrays; -1 above the root.
      reward: of the edge.
      discount: of the edge.
    """

    parent: chex.Array
    index: chex.Array
    reward: chex.Array
    discount: chex.Array


def edge_into(tree: "Tree", node_index: chex.Array | int) -> Edge:
    """Reads the edges into nodes."""
    index, transition = take(tree.edges, node_index), take(tree.transitions, node_index)
    parent = jnp.where(index < 0, Tree.NO_PARENT, jax.lax.div(index, tree.num_actions))
    return Edge(parent, index, transition[..., 0], transition[..., 1])


def edge_index(tree: "Tree", node_index: chex.Array, action: chex.Array) -> chex.Array:
    """Returns where an action of a node stands in `by_edge` arrays."""
    return node_index * tree.num_actions + action


def by_edge(array: chex.Array) -> chex.Array:
    """Views `[B, N, A]` as `[B, N·A]`, for `take` and `put` of single edges."""
    batch_size, num_nodes, num_actions = array.shape
    return array.reshape(batch_size, num_nodes * num_actions)


def allocate(
    root: Evaluation,
    embedding: Any,
    *,
    num_nodes: int,
    invalid_actions: chex.Array,
    num_layers: int = 1,
    windowed: bool = False,
    is_kept: bool = False,
    extra_data: Any = None,
) -> Tree:
    """Allocates trees that hold their root, evaluated in the first layer.

    Args:
      root: the roots; their reward and discount are not read.
      embedding: `[B, ...]` the roots' embeddings.
      num_nodes: capacity N, the root included.
      invalid_actions: `[B, A]` 1 for actions that are not allowed at the root.
      num_layers: number of trees on the topology.
      windowed: whether to allocate what a windowed backup needs.
      is_kept: whether the trees go on after a move: then visits may exceed the capacity, and a
        write-back between several layers needs to know which simulations ended where.
      extra_data: `[B, ...]` passed on to mctx's selection rules.

    Returns:
      The trees. In every layer but the first the root is still unevaluated. Children's indices, and
      visits unless `is_kept`, are int16 where the capacity allows.
    """
    chex.assert_rank([root.prior, root.value], [2, 1])
    batch_size, num_actions = root.prior.shape
    shape = (batch_size, num_nodes)
    # Counts and sums need the range of a float32, whatever the network computes in.
    raw_value = root.value.astype(jnp.promote_types(root.value.dtype, jnp.float32))
    dtype = raw_value.dtype
    index_type = smallest_type(num_nodes)
    visits_type = jnp.int32 if is_kept else index_type
    counts_leaves = is_kept and num_layers > 1

    def empty(row: chex.Array) -> chex.Array:
        return jnp.zeros(shape + row.shape[1:], row.dtype).at[:, 0].set(row)

    def layer() -> Layer:
        counter = jnp.zeros(shape, jnp.int32) if windowed else None
        return Layer(
            node_stats=jnp.zeros((*shape, 2), dtype),
            children_visits=jnp.zeros((*shape, num_actions), visits_type),
            children_qvalues=jnp.zeros((*shape, num_actions), dtype),
            path_visits=counter,
            heights=counter,
            leaf_visits=jnp.zeros(shape, jnp.int32) if counts_leaves else None,
        )

    first = layer()
    first = first.replace(
        node_stats=first.node_stats.at[:, 0].set(pair(jnp.ones(batch_size), raw_value)),
        path_visits=first.path_visits.at[:, 0].set(1) if windowed else None,
        leaf_visits=first.leaf_visits.at[:, 0].set(1) if counts_leaves else None,
    )
    return Tree(
        edges=jnp.full(shape, Tree.NO_PARENT, jnp.int32),
        transitions=empty(jnp.array([0.0, 1.0], dtype) * jnp.ones((batch_size, 1), dtype)),
        children_index=jnp.full((*shape, num_actions), Tree.UNVISITED, index_type),
        children_prior=empty(root.prior),
        raw_values=empty(raw_value),
        embeddings=jax.tree.map(empty, embedding),
        layers=(first, *(layer() for _ in range(num_layers - 1))),
        root_invalid_actions=invalid_actions,
        extra_data=extra_data,
    )


def smallest_type(largest: int) -> Any:
    """Returns the smaller of int16 and int32 that holds numbers up to `largest`."""
    return jnp.int16 if largest <= jnp.iinfo(jnp.int16).max else jnp.int32


def replace_layer(tree: Tree, index: int, layer: Layer) -> Tree:
    """Returns the trees with one layer exchanged."""
    layers = (*tree.layers[:index], layer, *tree.layers[index + 1 :])
    return tree.replace(layers=layers)


def get_children(tree: Tree, node_index: chex.Array | int, layer: int = 0) -> Children:
    """Reads what a layer knows of the children of `[B]` nodes."""
    stats = tree.layers[layer]
    return Children(
        visits=take(stats.children_visits, node_index).astype(jnp.int32),
        qvalues=take(stats.children_qvalues, node_index),
    )


def gather_children(index: chex.Array, array: chex.Array) -> chex.Array:
    """Reads `[B, N, ...]` at the children named in `[B, ..., A]` of `children_index`, else 0."""
    rows = index.reshape(index.shape[0], -1)
    values = take(array, jnp.maximum(rows, 0)).reshape(*index.shape, *array.shape[2:])
    exists = (index != Tree.UNVISITED).reshape(*index.shape, *(1,) * (array.ndim - 2))
    return jnp.where(exists, values, 0)


def get_state(tree: Tree, node_index: chex.Array) -> Any:
    """Gathers the embeddings of `[B]` nodes without their activations, to play on from them."""
    embeddings = tree.embeddings
    if isinstance(embeddings, Embedding):
        embeddings = dataclasses.replace(embeddings, activations=None)
    return jax.tree.map(lambda x: take(x, node_index), embeddings)


def to_mctx(tree: Tree, layer: int = 0, *, prior_is_logits: bool = False) -> mctx.Tree:
    """Exports one layer as an `mctx.Tree`, for tools that were written for mctx.

    Args:
      tree: trees after a search.
      layer: the layer to export. Nodes outside it appear as unvisited.
      prior_is_logits: true for trees that mctx's rules grew; else the probabilities are turned
        into logits, with the lowest finite number for illegal actions.

    Returns:
      The same trees in mctx's arrays. Slots that hold no node are zero, -1 where there is
      an index, and nothing stands below a terminal node, where mctx would have gone on.
    """
    prior = tree.children_prior
    if not prior_is_logits:
        tiny = jnp.finfo(prior.dtype).tiny
        logits = jnp.log(jnp.maximum(prior, tiny))
        prior = jnp.where(prior > 0, logits, jnp.finfo(prior.dtype).min)
    stats = tree.layers[layer]
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
