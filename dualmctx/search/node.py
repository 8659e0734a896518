"""A selection rule chooses an action at one node of every tree, which it reads as a `Node`."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_gather, by_edge, gather_pair, is_reference, mask_lanes
from dualmctx.search.tree import Tree, edge_index, gather_children, is_unmasked
from dualmctx.types import Params


class NodeInit(NamedTuple):
    """A new node as the search stores it; with K leaves per step, B is B·K.

    Attributes:
      prior: `[B, A]` in the form that the selection rule reads: for PUCT, probabilities that are 0
        for illegal actions; for mctx's rules, logits.
      value: `[B]` value of the state, from the view of the player to move there.
      reward: `[B]` reward of the edge into the node, from the view of the player who moved.
      discount: `[B]` discount of that edge; 0 if the node is terminal.
    """

    prior: Array
    value: Array
    reward: Array
    discount: Array


EvaluateFn = Callable[[Params, Array, Array, Any], tuple[NodeInit, Any]]
"""Plays `[B]` actions in `[B]` embeddings and evaluates the resulting states; consumes the key."""


class LastEdge(NamedTuple):
    """The last edge of the path of a descent.

    Attributes:
      parent: `[B]` int32, the node from which the last edge starts.
      action: `[B]` int32, the action of the last edge.
      child: `[B]` int32, the node to which the edge leads; -1 if it does not exist yet.
      depth: `[B]` int32, the number of edges, at least 1.
    """

    parent: Array
    action: Array
    child: Array
    depth: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """One node of every tree.

    A property reads its array when a rule first uses it, so a rule pays for its own data only. What
    a condition or a loop of the rule uses must be read before it. Rows have an entry for each
    action, `[B, A]`. In a kernel, B is 1 and rows are longer: the entries past the last action are
    those of illegal, unvisited actions, and `mask` replaces them.

    Attributes:
      tree: the trees.
      index: `[B]` int32, or an int for the same node of each tree.
      depth: scalar int32, the depth of the nodes.
      tree_index: the tree whose statistics are read.
      actions: `[B, K]` int32, the actions of the rows; `None` for all.
    """

    tree: Tree
    index: Array | int
    depth: Array | int = 0
    tree_index: int = 0
    actions: Array | None = None

    def only(self, actions: Array) -> Self:
        """Returns the nodes with rows of `[B, K]` actions."""
        return dataclasses.replace(self, actions=actions)

    def mask(self, row: Array, fill: Any) -> Array:
        """Replaces the entries of a row past the last action, which only kernels have."""
        length = self.num_actions if self.actions is None else self.actions.shape[-1]
        return mask_lanes(row, length, fill)

    @property
    def batch_size(self) -> int:
        """B, the number of trees."""
        return self.tree.edges.shape[0]

    @property
    def num_actions(self) -> int:
        """A, the number of actions."""
        return self.tree.num_actions

    @property
    def is_root(self) -> Array:
        """`[B]` bool."""
        return jnp.broadcast_to(jnp.asarray(self.index) == Tree.ROOT_INDEX, (self.batch_size,))

    @functools.cached_property
    def prior(self) -> Array:
        """`[B, A]` probabilities, exactly 0 for illegal actions; logits for the rules of mctx."""
        return self._row(self.tree.children_prior)

    @functools.cached_property
    def legal(self) -> Array:
        """`[B, A]` bool."""
        prior = self.prior
        return is_unmasked(prior) if self.tree.prior_is_logits else prior > 0

    @functools.cached_property
    def visits(self) -> Array:
        """`[B, A]` int32 N(s, a)."""
        return self._row(self._stats.children_visits).astype(jnp.int32)

    @functools.cached_property
    def qvalues(self) -> Array:
        """`[B, A]` Q(s, a), from the view of the player to move; 0 for unvisited actions."""
        return self._row(self._stats.children_qvalues)

    @functools.cached_property
    def children(self) -> Array:
        """`[B, A]` int32 nodes to which the actions lead; -1 where there is none."""
        return self._row(self.tree.children_index).astype(jnp.int32)

    @functools.cached_property
    def passes(self) -> Array:
        """`[B, A]` int32 simulations that passed through each action, with a window too."""
        if self._stats.path_visits is None:
            return self.visits
        return gather_children(self.children, self._stats.path_visits)

    @property
    def num_visits(self) -> Array:
        """`[B]` int32 visits of the node."""
        return self._visits_and_value[0].astype(jnp.int32)

    @property
    def value(self) -> Array:
        """`[B]` mean of the node's returns, from the view of the player to move."""
        return self._visits_and_value[1]

    @functools.cached_property
    def _visits_and_value(self) -> tuple[Array, Array]:
        return gather_pair(self._stats.node_stats, self.index)

    @functools.cached_property
    def raw_value(self) -> Array:
        """`[B]` value of the node without search, from the view of the player to move."""
        return batched_gather(self.tree.raw_values, self.index)

    @property
    def height(self) -> Array:
        """`[B]` int32, the largest number of edges that a simulation passed below the node."""
        assert self._stats.heights is not None, "the tree was not allocated for a window"
        return batched_gather(self._stats.heights, self.index)

    def statistic(self, name: str) -> Any:
        """Reads the arrays of a `Statistic`: a pytree of `[B, ...]` arrays."""

        def read(array: Array) -> Array:
            return batched_gather(array, self.index)

        return jax.tree.map(read, self._stats.extra[name], is_leaf=is_reference)

    def statistic_pair(self, name: str) -> tuple[Array, Array]:
        """Reads the array of a `Statistic` with pairs, `[B, N, A, 2]`: two rows."""
        return gather_pair(self._stats.extra[name], self.index)

    @property
    def _stats(self) -> Any:
        return self.tree.stats[self.tree_index]

    def _row(self, array: Array) -> Array:
        if self.actions is None:
            return batched_gather(array, self.index)
        first = edge_index(self.tree, jnp.asarray(self.index, jnp.int32), jnp.int32(0))
        return batched_gather(by_edge(array), first.reshape(-1, 1) + self.actions)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores of a rule at `[B]` nodes, taken apart.

    Attributes:
      addends: `[B, A]` each, or arrays that broadcast to it; their sum is the score up to rounding.
      score: `[B, A]`; the rule chooses the largest entry. -inf for actions that it excludes.
      names: a name for each addend.
      actions: `[B, A]` the action of each score; the index of the score if `None`.
    """

    addends: tuple[Array, ...]
    score: Array
    names: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    actions: Array | None = None


class Choice(NamedTuple):
    """The choice of a rule at `[B]` nodes, with its reasons.

    Attributes:
      action: `[B]` int32.
      reasons: by name: `scores`, a `Scores`; the visits that a schedule requires; whether a rule
        explores or samples. Each rule names its own.
    """

    action: Array
    reasons: dict[str, Any]


class Rule:
    """A selection rule: `rule(rng_key, node)` returns `[B]` int32 actions.

    A rule is a frozen dataclass, registered with `jax.tree_util.register_dataclass`. A field that
    is an array is `[B]` or `[B, L]`, with a row for each tree, or a scalar.

    The key is the same at every depth of a simulation, so a rule that samples folds the depth into
    it; see `keys.node_keys`.

    Attributes:
      samples: whether the rule uses the key.
      in_kernels: whether the rule runs in GPU kernels. It then keeps to the operations that
        `gpu.references` lists.
    """

    samples: ClassVar[bool] = True
    in_kernels: ClassVar[bool] = False

    def __call__(self, rng_key: Any, node: Node) -> Array:
        """Chooses `[B]` actions."""
        raise NotImplementedError

    def explain(self, rng_key: Any, node: Node) -> Choice:
        """Returns the choice of a call, with its reasons, which may take longer to compute."""
        return Choice(self(rng_key, node), {})


class WrappingRule(Rule):
    """A rule that another one decides in most cases; it runs in kernels if the other does."""

    rule: Rule

    @property
    def in_kernels(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the other rule."""
        return self.rule.in_kernels
