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

from dualmctx.search.arrays import batched_gather, pair
from dualmctx.types import Embedding

T = TypeVar("T")

# An action this far below the best one was masked: by the lowest float, -inf or, say, -1e9. In
# float16 no two numbers lie so far apart, so there it is half of the largest.
_ILLEGAL_GAP = 1e6


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TreeStats:
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
      tracked: `[B, N, ...]` arrays, what a variant keeps of a node besides; `None` in most.
      children_minimax: `[B, N, A]` minimax values of the children that were visited, seen by the
        player to move at s, of no meaning elsewhere; see `minimax`. `None` unless asked for.
      children_rave: `[B, N, A, 2]` all-moves-as-first counts and means, seen likewise; see `rave`.
        `None` unless asked for.
    """

    node_stats: chex.Array
    children_visits: chex.Array
    children_qvalues: chex.Array
    path_visits: Any = None
    heights: Any = None
    leaf_visits: Any = None
    tracked: Any = None
    children_minimax: Any = None
    children_rave: Any = None

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
      children_prior: `[B, N, A]` what the selection rule reads, see `NodeInit.prior`.
      raw_values: `[B, N]` value of the state before any search.
      embeddings: `[B, N, ...]` what `recurrent_fn` returned.
      stats: statistics, a layer a tree; Dual's are T_sub and T_full.
      root_invalid_actions: `[B, A]` 1 for actions that are not allowed at the root.
      extra_data: `[B, ...]` passed on to mctx's selection rules.
      prior_is_logits: whether `children_prior` holds logits, for mctx's rules, or probabilities,
        for PUCT; see `is_legal`.
    """

    edges: chex.Array
    transitions: chex.Array
    children_index: chex.Array
    children_prior: chex.Array
    raw_values: chex.Array
    embeddings: Any
    stats: tuple[TreeStats, ...]
    root_invalid_actions: chex.Array
    extra_data: T
    prior_is_logits: bool = dataclasses.field(default=False, metadata={"static": True})

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

    def summary(self, tree_index: int = 0) -> SearchSummary:
        """Summarises the root, as mctx's `Tree.summary` does, in one of the layers."""
        root = jnp.zeros(self.edges.shape[0], jnp.int32)
        children = get_children(self, root, tree_index)
        value = self.stats[tree_index].node_values[:, self.ROOT_INDEX]
        visit_counts = children.visits.astype(value.dtype)
        total = jnp.sum(visit_counts, axis=-1, keepdims=True)
        visit_probs = jnp.where(
            total > 0, visit_counts / jnp.maximum(total, 1), 1 / self.num_actions
        )
        return SearchSummary(visit_counts, visit_probs, value, children.qvalues)


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
    index, transition = (
        batched_gather(tree.edges, node_index),
        batched_gather(tree.transitions, node_index),
    )
    parent = jnp.where(index < 0, Tree.NO_PARENT, jax.lax.div(index, jnp.int32(tree.num_actions)))
    return Edge(parent, index, transition[..., 0], transition[..., 1])


def edge_index(tree: "Tree", node_index: chex.Array, action: chex.Array) -> chex.Array:
    """Returns where an action of a node stands in `by_edge` arrays."""
    return node_index * tree.num_actions + action


def is_unmasked(logits: chex.Array) -> chex.Array:
    """Returns which of `[..., A]` logits belong to legal actions: those not far below the best.

    Far is a million, in float16 32,752. The type is the one in which they were masked. Where all
    logits are equal, none is masked, as in a softmax, however low they are.
    """
    gap = min(_ILLEGAL_GAP, float(jnp.finfo(logits.dtype).max) / 2)
    return logits >= jnp.max(logits, axis=-1, keepdims=True) - gap


def is_finite(tree: Tree) -> chex.Array:
    """Returns `[B]` bool, whether every evaluation in a tree was finite.

    False after a NaN or an infinity among the values, or a NaN or +infinity among the logits, of
    any node and any of the network's heads that the search asked. It reads the whole tree once.
    """
    if tree.prior_is_logits:
        has_prior = jnp.all(tree.children_prior < jnp.inf, axis=-1)
    else:
        # Only such logits leave a node without any prior.
        is_node = (tree.edges != Tree.NO_PARENT) & (tree.discounts != 0)
        has_prior = jnp.any(tree.children_prior > 0, axis=-1) | ~is_node
    return jnp.all(jnp.isfinite(tree.raw_values) & has_prior, axis=-1)


def is_legal(tree: Tree, node_index: chex.Array | int) -> chex.Array:
    """Tells the legal actions of `[B]` nodes, `[B, A]`, by their priors.

    Probabilities are exactly 0 for illegal actions; logits lie far below the best.
    """
    prior = batched_gather(tree.children_prior, node_index)
    return is_unmasked(prior) if tree.prior_is_logits else prior > 0


def replace_stats(tree: Tree, index: int, tree_index: TreeStats) -> Tree:
    """Returns the trees with one layer exchanged."""
    stats = (*tree.stats[:index], tree_index, *tree.stats[index + 1 :])
    return tree.replace(stats=stats)


def get_children(tree: Tree, node_index: chex.Array | int, tree_index: int = 0) -> Children:
    """Reads what a layer knows of the children of `[B]` nodes."""
    stats = tree.stats[tree_index]
    return Children(
        visits=batched_gather(stats.children_visits, node_index).astype(jnp.int32),
        qvalues=batched_gather(stats.children_qvalues, node_index),
    )


def latest_children(tree: Tree) -> Children:
    """Reads the children of the root, each in the last tree that visited it.

    With several trees, the tree by which an action is chosen need not be the last one.

    Returns:
      `[B, A]` visits and Q, over the game's actions or over slots, see `slot_actions`; both are 0
      where no tree visited the action.
    """
    found = get_children(tree, Tree.ROOT_INDEX)
    for tree_index in range(1, len(tree.stats)):
        later = get_children(tree, Tree.ROOT_INDEX, tree_index)
        found = Children(*(jnp.where(later.visits > 0, *x) for x in zip(later, found, strict=True)))
    return found


def gather_children(index: chex.Array, array: chex.Array) -> chex.Array:
    """Reads `[B, N, ...]` at the children named in `[B, ..., A]` of `children_index`, else 0."""
    rows = index.reshape(index.shape[0], -1)
    values = batched_gather(array, jnp.maximum(rows, 0)).reshape(*index.shape, *array.shape[2:])
    exists = (index != Tree.UNVISITED).reshape(*index.shape, *(1,) * (array.ndim - 2))
    return jnp.where(exists, values, 0)


def root_passes(tree: Tree, tree_index: int = 0) -> chex.Array:
    """Counts the simulations of one tree that passed through each action of the root.

    These are the visits, but for a window: it cuts visits short and never this count.

    Returns:
      `[B, A]` int32.
    """
    passes = tree.stats[tree_index].path_visits
    if passes is None:
        return get_children(tree, Tree.ROOT_INDEX, tree_index).visits
    return gather_children(tree.children_index[:, Tree.ROOT_INDEX], passes)


def slot_actions(tree: Tree) -> chex.Array | None:
    """Returns `[B, N, C]` int32, the game's actions that the slots of each node stand for.

    `None` where slots stand for themselves, as everywhere unless a policy limits the children.
    """
    return tree.embeddings.actions if isinstance(tree.embeddings, Embedding) else None


def get_state(tree: Tree, node_index: chex.Array) -> Any:
    """Gathers the embeddings of `[B]` nodes without their activations, to play on from them."""
    embeddings = tree.embeddings
    if isinstance(embeddings, Embedding):
        embeddings = dataclasses.replace(embeddings, activations=None)
    return jax.tree.map(lambda x: batched_gather(x, node_index), embeddings)
