"""The search tree: nodes and edges, which one or several trees share, and their statistics.

Statistics of an edge are stored at its child node: `node_visits[b, n]` is both the visit count of
node n and N(s, a) of the edge into n. Selection reads N and Q of all children of a node, so each
node also has a row with a copy of these numbers. A backup writes one number in each place; it never
reads or writes a whole `[B, N, A]` array.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.checks import check, describe, is_whole
from dualmctx.search.arrays import batched_gather, gather_pair
from dualmctx.types import Embedding

# An action whose logit is this far below the largest one is masked, whether by the lowest float, by
# -inf or by a number such as -1e9. The range of float16 is smaller; there the gap is half of the
# largest float.
_ILLEGAL_GAP = 1e6


class SearchSummary(NamedTuple):
    """The statistics of the root in one tree, with the fields of mctx's summary.

    Attributes:
      visit_counts: `[B, A]` visits of the root's children.
      visit_probs: `[B, A]` the visits divided by their sum; uniform where nothing was visited.
      value: `[B]` value of the root, from the view of the player to move.
      qvalues: `[B, A]` Q of the root's actions; 0 where unvisited.
    """

    visit_counts: Array
    visit_probs: Array
    value: Array
    qvalues: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TreeStats:
    """The statistics of one tree. A node belongs to the tree iff its visit count is positive.

    Attributes:
      node_stats: `[B, N, 2]` float. Entry 0 is the visits (exact up to 2^24): the number of updates
        of the edge into the node; at the root, 1 plus the number of updates of its outgoing edges.
        Entry 1 is the mean of the returns, from the view of the player to move at the node. A
        backup reads and writes both, so they are adjacent in memory.
      children_visits: `[B, N, A]` int16 or int32 (see `allocate`), visits of the children; 0 where
        there is no child.
      children_qvalues: `[B, N, A]` Q(s, a) = r + γ V(s'), from the view of the player to move at s;
        0 for unvisited actions.
      path_visits: `[B, N]` int32, simulations that passed through the node or ended there, whether
        or not it was inside the window of the backup; 1 more at the root. `None` for full backups,
        where it would equal `node_visits`.
      heights: `[B, N]` int32, the largest number of edges that a simulation passed below the node.
        `None` for full backups.
      leaf_visits: `[B, N]` int32, simulations that ended at the node, including the evaluation of
        the root. `None` where it is not needed or follows from the other fields.
      extra: the arrays of each additional statistic by its name, `[B, N, ...]` each; see
        `climb.Statistic`.
    """

    node_stats: Array
    children_visits: Array
    children_qvalues: Array
    path_visits: Array | None = None
    heights: Array | None = None
    leaf_visits: Array | None = None
    extra: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])

    @property
    def node_visits(self) -> Array:
        """`[B, N]` int32, the visits in `node_stats`."""
        return self.node_stats[..., 0].astype(jnp.int32)

    @property
    def node_values(self) -> Array:
        """`[B, N]`, the means in `node_stats`."""
        return self.node_stats[..., 1]

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields replaced."""
        return dataclasses.replace(self, **changes)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tree:
    """A batch of search trees. With several trees per element, they share one array of nodes.

    "The trees" are all trees of the batch; "one of the trees" is the tree of one index in `stats`.

    Attributes:
      edges: `[B, N]` int32, the edge into the node, parent · A + action; -1 for the root and for
        slots without a node.
      transitions: `[B, N, 2]` reward and discount of that edge; the discount is 0 at terminal nodes
        and 1 at the root.
      children_index: `[B, N, A]` int16, or int32 in trees of more than 32,767 nodes; -1 where there
        is no child.
      children_prior: `[B, N, A]` the prior that the selection rule reads, see `NodeInit.prior`.
      raw_values: `[B, N]` value of the state without search, from the view of the player to move.
      embeddings: `[B, N, ...]` the embeddings that `recurrent_fn` returned.
      stats: the statistics of each tree; Dual has two, T_sub and T_full.
      root_invalid_actions: `[B, A]` 1 for actions that are not allowed at the root.
      extra_data: `[B, ...]` passed on to mctx's selection rules.
      prior_is_logits: whether `children_prior` holds logits, for mctx's rules, or probabilities,
        for PUCT; illegal actions are those of `Node.legal`.
    """

    edges: Array
    transitions: Array
    children_index: Array
    children_prior: Array
    raw_values: Array
    embeddings: Any
    stats: tuple[TreeStats, ...]
    root_invalid_actions: Array
    extra_data: Any
    prior_is_logits: bool = dataclasses.field(default=False, metadata={"static": True})

    ROOT_INDEX: ClassVar[int] = 0
    NO_PARENT: ClassVar[int] = -1
    UNVISITED: ClassVar[int] = -1

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields replaced."""
        return dataclasses.replace(self, **changes)

    @property
    def parents(self) -> Array:
        """`[B, N]` int32, -1 for the root and for slots without a node."""
        return self.edges // self.num_actions  # Rounds down, so -1 stays -1.

    @property
    def action_from_parent(self) -> Array:
        """`[B, N]` int32, -1 for the root and for slots without a node."""
        has_edge = self.edges != Tree.NO_PARENT
        return jnp.where(has_edge, self.edges % self.num_actions, Tree.NO_PARENT)

    @property
    def rewards(self) -> Array:
        """`[B, N]` reward of the edge into the node."""
        return self.transitions[..., 0]

    @property
    def discounts(self) -> Array:
        """`[B, N]` discount of that edge."""
        return self.transitions[..., 1]

    @property
    def num_actions(self) -> int:
        """A, the number of actions, or of action slots if children are limited."""
        return self.children_index.shape[-1]

    @property
    def num_nodes(self) -> int:
        """N, the capacity, including slots that are still empty."""
        return self.edges.shape[-1]

    def summary(self, tree_index: int = 0) -> SearchSummary:
        """Returns the statistics of the root in one of the trees, as mctx's `Tree.summary` does."""
        check_tree(self, tree_index)
        stats, root = self.stats[tree_index], self.ROOT_INDEX
        value = stats.node_values[:, root]
        visit_counts = stats.children_visits[:, root].astype(value.dtype)
        total = jnp.sum(visit_counts, axis=-1, keepdims=True)
        visit_probs = jnp.where(
            total > 0, visit_counts / jnp.maximum(total, 1), 1 / self.num_actions
        )
        return SearchSummary(visit_counts, visit_probs, value, stats.children_qvalues[:, root])


class Edge(NamedTuple):
    """The edges into `[B]` or `[B, K]` nodes; each array has the shape of the nodes.

    Attributes:
      parent: int32, -1 above the root.
      flat_index: int32, the position of the edge in `by_edge` arrays; -1 above the root.
      reward: reward of the edge.
      discount: discount of the edge.
    """

    parent: Array
    flat_index: Array
    reward: Array
    discount: Array


def edge_into(tree: Tree, node_index: Array | int) -> Edge:
    """Reads the edges into nodes."""
    index = batched_gather(tree.edges, node_index)
    reward, discount = gather_pair(tree.transitions, node_index)
    parent = jnp.where(index < 0, Tree.NO_PARENT, jax.lax.div(index, jnp.int32(tree.num_actions)))
    return Edge(parent, index, reward, discount)


def edge_index(tree: Tree, node_index: Array, action: Array) -> Array:
    """Returns the position of a node's action in `by_edge` arrays."""
    return node_index * tree.num_actions + action


def is_unmasked(logits: Array) -> Array:
    """Returns which of `[..., A]` logits are not masked: those not far below the largest.

    A logit is far below if the gap is more than a million or, in float16, 32,752. The logits must
    have the type in which they were masked. If all logits are equal, none counts as masked, however
    low they are; a softmax treats them in the same way.
    """
    gap = min(_ILLEGAL_GAP, float(jnp.finfo(logits.dtype).max) / 2)
    return logits >= jnp.max(logits, axis=-1, keepdims=True) - gap


def is_finite(tree: Tree) -> Array:
    """Returns `[B]` bool, whether every evaluation in a tree was finite.

    The result is false if any head that the search evaluated returned a value that is NaN or
    infinite, or a logit that is NaN or +infinity. The function reads the whole tree once.
    """
    if tree.prior_is_logits:
        has_prior = jnp.all(tree.children_prior < jnp.inf, axis=-1)
    else:
        # A node without a positive prior had a logit that is NaN or +infinity. The logits of the
        # root were repaired, and its value is NaN then.
        is_node = (tree.edges != Tree.NO_PARENT) & (tree.discounts != 0)
        has_prior = jnp.any(tree.children_prior > 0, axis=-1) | ~is_node
    return jnp.all(jnp.isfinite(tree.raw_values) & has_prior, axis=-1)


def check_tree(tree: Any, tree_index: Any = 0) -> None:
    """Checks that an argument is a search's tree, and that it has the tree of an index.

    Raises:
      ValueError: if it is not, or has not.
    """
    check(isinstance(tree, Tree), "tree", describe(tree), "the search_tree of a search's output")
    last = len(tree.stats) - 1
    is_valid = is_whole(tree_index) and -last - 1 <= tree_index <= last  # as of a tuple
    remedy = f"from 0 to {last}" if last else "0, as there is one tree"
    check(is_valid, "tree_index", describe(tree_index), remedy)


def replace_stats(tree: Tree, tree_index: int, stats: TreeStats) -> Tree:
    """Returns the trees with the statistics of one of them replaced."""
    return tree.replace(stats=(*tree.stats[:tree_index], stats, *tree.stats[tree_index + 1 :]))


def gather_children(index: Array, array: Array) -> Array:
    """Reads a `[B, N, ...]` array at `[B, ..., A]` children; 0 where the index is -1."""
    rows = index.reshape(index.shape[0], -1)
    values = batched_gather(array, jnp.maximum(rows, 0)).reshape(*index.shape, *array.shape[2:])
    exists = (index != Tree.UNVISITED).reshape(*index.shape, *(1,) * (array.ndim - 2))
    return jnp.where(exists, values, 0)


def get_state(tree: Tree, node_index: Array) -> Any:
    """Gathers the embeddings of `[B]` nodes without their activations, as `recurrent_fn` input."""
    embeddings = tree.embeddings
    if isinstance(embeddings, Embedding):
        embeddings = dataclasses.replace(embeddings, activations=None)
    return jax.tree.map(lambda x: batched_gather(x, node_index), embeddings)
