"""Simulations that begin with a given action of the root, and their share of the root's visits.

The trees stay those of one search: a forced simulation is an ordinary one, except that the rule
does not choose its first action. Backups update the same statistics, so Q(s, a) of the action
becomes more precise, and later simulations read it.

Visits of the root alone then no longer show the preference of the search. So the forced simulations
are counted, and the output of a policy reads the visits without them, see `without_forced`. KataGo
subtracts its forced playouts from the policy target for the same reason (Wu 2019, "Accelerating
Self-Play Learning in Go", section 3.2).
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_scatter
from dualmctx.search.node import Choice, Node, Rule, WrappingRule
from dualmctx.search.slots import root_slots
from dualmctx.search.tree import Tree, TreeStats


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ForcedRule(WrappingRule):
    """A rule for the root that takes a given action in some trees."""

    rule: Rule
    """The rule in the other trees."""
    action: Array
    """`[B]` int32, the action slots; -1 in the other trees."""

    def __call__(self, rng_key: Any, node: Node) -> Array:
        """Chooses `[B]` actions."""
        return jnp.where(self.action >= 0, self.action, self.rule(rng_key, node))

    def explain(self, rng_key: Any, node: Node) -> Choice:
        """Returns the choice, with the reasons of the other rule."""
        choice = self.rule.explain(rng_key, node)
        return choice._replace(action=jnp.where(self.action >= 0, self.action, choice.action))


class RootCounts(NamedTuple):
    """Simulations of one tree by the first action.

    Attributes:
      visits: `[B, C]` int32, as `TreeStats.children_visits` counts them.
      passes: `[B, C]` int32, as `Node.passes` counts them.
    """

    visits: Array
    passes: Array


def count_root(tree: Tree) -> tuple[RootCounts, ...]:
    """Returns the counts of each tree."""
    nodes = [Node(tree, Tree.ROOT_INDEX, tree_index=i) for i in range(len(tree.stats))]
    return tuple(RootCounts(node.visits, node.passes) for node in nodes)


def forced_slots(tree: Tree, root_action: Any) -> Array:
    """Returns `[B]` int32, the root's slots of `[B]` actions; -1 where an action is not legal.

    Raises:
      ValueError: if the actions are not an array of integers with an entry for each tree.
    """
    slot = root_slots(tree, root_action, "root_action", "; -1 forces no action")
    legal = Node(tree, Tree.ROOT_INDEX).legal
    is_allowed = jnp.take_along_axis(legal, jnp.maximum(slot, 0)[:, None], axis=-1)[:, 0]
    return jnp.where(is_allowed, slot, -1)


def without_forced(tree: Tree, forced: tuple[RootCounts, ...]) -> Tree:
    """Returns trees whose roots count the forced simulations of an action as at most one.

    Values and all other statistics are unchanged. An action keeps one visit if the search has no
    others for it, so that its Q is still read, and a root whose simulations are all forced has
    weights.

    Args:
      tree: the trees after a search.
      forced: the forced simulations in each tree.
    """
    children = tree.children_index[:, Tree.ROOT_INDEX].astype(jnp.int32)

    def free(counts: Array, forced: Array) -> Array:
        return jnp.where(forced > 0, jnp.maximum(counts - forced, 1), counts)

    def change(stats: TreeStats, counts: RootCounts, forced: RootCounts) -> TreeStats:
        visits = free(counts.visits, forced.visits).astype(stats.children_visits.dtype)
        # Trees that were read from the device are NumPy's.
        rows = jnp.asarray(stats.children_visits).at[:, Tree.ROOT_INDEX].set(visits)
        passes = stats.path_visits
        if passes is not None:
            new = free(counts.passes, forced.passes)
            is_child = children != Tree.UNVISITED
            passes = batched_scatter(passes, jnp.maximum(children, 0), new, is_child)
        return stats.replace(children_visits=rows, path_visits=passes)

    changed = map(change, tree.stats, count_root(tree), forced)
    return tree.replace(stats=tuple(changed))
