"""Selection: the descent from the roots, and the PUCT rule."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import any_true, lane_index, read_edges
from dualmctx.search.keys import EXPLORING, node_keys, uniform_columns
from dualmctx.search.node import Choice, LastEdge, Node, Rule, Scores, WrappingRule
from dualmctx.search.spec import SearchSpec
from dualmctx.search.tree import Tree, edge_into


def argmax(score: Array, actions: Array | None = None) -> Array:
    """Returns `[B]` int32, the action with the largest of `[B, A]` scores; ties go to the lowest.

    Without NaN, the result equals `jnp.argmax`. Two plain reductions replace XLA's reduction of
    pairs, which XLA does not vectorise on CPUs. They are 3 to 6 times faster at A = 362.

    Args:
      score: the scores; -inf for actions that must not be chosen. If a score is NaN, the result is
        an action whose score is not -inf.
      actions: `[B, A]` the action of each score, in any order; the index of the score if `None`.

    Returns:
      The actions.
    """
    index = lane_index(score.shape)
    best = jnp.max(score, axis=-1, keepdims=True)
    if jnp.issubdtype(score.dtype, jnp.floating):
        # With NaN, the maximum is NaN; in a kernel it ignores NaN and may be -inf.
        lowest = jnp.finfo(score.dtype).min
        best = jnp.where(best >= lowest, best, lowest)
    # NaN is not less than any number.
    is_best = ~(score < best)
    nothing = jnp.iinfo(jnp.int32).max
    found = jnp.min(jnp.where(is_best, index if actions is None else actions, nothing), axis=-1)
    first = 0 if actions is None else jnp.min(actions, axis=-1)
    return jnp.where(found == nothing, first, found)


class QValues:
    """The Q that a rule uses at a node: a dataclass like a `Rule`."""

    def __call__(self, node: Node) -> Array:
        """Returns `[B, A]` Q-values, from the view of the player to move at the node."""
        raise NotImplementedError


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Means(QValues):
    """The means Q(s, a), 0 for unvisited actions."""

    def __call__(self, node: Node) -> Array:
        """Returns the means."""
        return node.qvalues


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CompletedMeans(QValues):
    """The means Q(s, a), with the node's own mean for unvisited actions."""

    def __call__(self, node: Node) -> Array:
        """Returns the means."""
        return jnp.where(node.visits > 0, node.qvalues, node.value[:, None])


class ScoringRule(Rule):
    """A rule that chooses the action with the largest score; ties go to the lowest action."""

    def score(self, rng_key: Any, node: Node) -> Scores:
        """Returns the scores of `[B]` nodes."""
        raise NotImplementedError

    def __call__(self, rng_key: Any, node: Node) -> Array:
        """Chooses `[B]` actions."""
        scores = self.score(rng_key, node)
        return argmax(scores.score, scores.actions)

    def explain(self, rng_key: Any, node: Node) -> Choice:
        """Returns the choice, and the scores as `scores`."""
        scores = self.score(rng_key, node)
        return Choice(argmax(scores.score, scores.actions), {"scores": scores})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PuctRule(ScoringRule):
    """PUCT.

    Formula:
        argmax_a  Q(s,a) + c · P(s,a) · sqrt(max(1, Σ_b N(s,b))) / (1 + N(s,a))

    over actions with P > 0. Q is 0 where N = 0, and ties go to the lowest action.

    Source: Silver et al. 2017 (AlphaZero); Kadam, Xu, Lieberherr 2021, eq. 1.
    """

    samples: ClassVar[bool] = False
    in_kernels: ClassVar[bool] = True

    c_puct: Array | float
    """c, the weight of exploration; positive."""
    qvalues: QValues
    """Q; `Means`, perhaps mixed."""

    def score(self, rng_key: Any, node: Node) -> Scores:
        """Returns Q and the exploration."""
        prior, visits, qvalues = node.prior, node.visits, self.qvalues(node)
        total = jnp.sum(visits, axis=-1, keepdims=True).astype(prior.dtype)
        exploration = self.c_puct * prior * jnp.sqrt(jnp.maximum(total, 1)) / (1 + visits)
        score = jnp.where(prior > 0, qvalues + exploration, -jnp.inf)
        return Scores((qvalues, exploration), score, ("Q", "exploration"))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ExploringRule(WrappingRule):
    """A rule that is epsilon-greedy at nodes whose statistics a window leaves stale.

    If the subtree below a node at depth k is higher than the window, the rule samples a legal
    action uniformly with probability ε0 · ν^k. In all other cases another rule decides.

    Source: Kadam, Xu, Lieberherr 2021, section 3, eq. 4. Our readings: the paper tests the distance
    of a node to a leaf that is not known yet; here the height of its subtree replaces that
    distance. k is the depth. The frozen action a_k is the argmax of the stale scores.
    """

    rule: Rule
    """The other rule."""
    explore_fraction: Array | float
    """ε0 in [0, 1]."""
    explore_decay: Array | float
    """ν in [0, 1]."""
    window: Array | int
    """τ, in edges."""

    def __call__(self, rng_key: Any, node: Node) -> Array:
        """Chooses `[B]` actions."""
        greedy, is_outside, legal = self.rule(rng_key, node), *self._read(node)

        def explore(greedy: Array) -> Array:
            return self._explore(rng_key, node, greedy, is_outside, legal)[0]

        # Sampling takes half as long as the rest of the rule, and few nodes below the root need it.
        return jax.lax.cond(any_true(is_outside), explore, lambda greedy: greedy, greedy)

    def explain(self, rng_key: Any, node: Node) -> Choice:
        """Returns the choice, and as `explores` whether it was sampled."""
        choice = self.rule.explain(rng_key, node)
        action, explores = self._explore(rng_key, node, choice.action, *self._read(node))
        return Choice(action, choice.reasons | {"explores": explores})

    def _read(self, node: Node) -> tuple[Array, Array]:
        """Returns `[B]` bool, nodes outside the window, and `[B, A]` bool, their legal actions."""
        # Descents that have ended stay at the root.
        return (node.height > self.window) & ((node.depth == 0) | ~node.is_root), node.legal

    def _explore(
        self, rng_key: Any, node: Node, greedy: Array, is_outside: Array, legal: Array
    ) -> tuple[Array, Array]:
        """Returns `[B]` actions, and `[B]` bool, those that were sampled."""
        # One key per element, so that its samples do not depend on the batch size.
        keys = node_keys(rng_key, EXPLORING, node.depth, node.batch_size)
        chance, position = uniform_columns(keys, 2)
        limit = self.explore_fraction * self.explore_decay**node.depth
        explores = is_outside & (chance < limit)
        # By rank, so that the sample is the same if the children are limited to the legal ones.
        rank = jnp.floor(position * jnp.sum(legal, axis=-1)).astype(jnp.int32)
        ranks = jnp.cumsum(legal.astype(jnp.int32), axis=-1)
        choice = argmax((ranks > rank[:, None]).astype(jnp.int32))
        return jnp.where(explores, choice, greedy), explores


class _Walk(NamedTuple):
    path: LastEdge
    is_walking: Array
    depth: Array


def descend(spec: SearchSpec, rng_key: Any, tree: Tree, is_active: Array | None = None) -> LastEdge:
    """Descends from the roots to the ends of simulations.

    A descent ends with an edge into a node that does not exist, that the tree has not visited or
    that is terminal, or at the largest depth. All elements of the batch are at the same depth. A
    root rule of its own runs once, before the loop. If the root has the same rule as the other
    nodes, the loop starts at the root, and the rule is compiled once.

    Args:
      spec: the rules, the largest depth, and the tree that the rules read and whose visits decide
        where a descent ends.
      rng_key: consumed by the rules.
      tree: the trees.
      is_active: `[B]` bool, elements that descend, all if `None`; the others stay at the root.

    Returns:
      The last edge of each path (undefined where inactive).
    """

    def body(walk: _Walk) -> _Walk:
        # Finished descents wait at the root. Ties are rare there, so a rule that samples only to
        # break ties seldom has to.
        node = jnp.where(walk.is_walking, walk.path.child, Tree.ROOT_INDEX)
        new, goes_on = _step(spec, spec.rule, rng_key, tree, node, walk.depth)
        new = new._replace(depth=walk.path.depth + 1)
        path = jax.tree.map(lambda x, y: jnp.where(walk.is_walking, x, y), new, walk.path)
        return _Walk(path, walk.is_walking & goes_on, walk.depth + 1)

    root = jnp.full(tree.edges.shape[0], Tree.ROOT_INDEX, jnp.int32)
    path = LastEdge(parent=root, action=root, child=root, depth=jnp.zeros_like(root))
    active = jnp.ones(root.shape, bool) if is_active is None else is_active
    walk = _Walk(path, active, jnp.int32(0))
    if spec.root_rule is not None:
        path, goes_on = _step(spec, spec.root_rule, rng_key, tree, root, jnp.int32(0))
        walk = _Walk(path, active & goes_on, jnp.int32(1))
    return jax.lax.while_loop(lambda walk: any_true(walk.is_walking), body, walk).path


def _step(
    spec: SearchSpec, rule: Rule, rng_key: Any, tree: Tree, node: Array, depth: Array
) -> tuple[LastEdge, Array]:
    """Follows one edge; returns it, and whether the descent goes on."""
    read_visits = read_edges(tree.stats[spec.tree_index].children_visits, node)
    read_child = read_edges(tree.children_index, node)
    # The root's own rule reads slices, which are cheaper than gathers.
    index = Tree.ROOT_INDEX if rule is spec.root_rule else node
    action = rule(rng_key, Node(tree, index, depth, spec.tree_index))
    child = read_child(action).astype(jnp.int32)
    is_terminal = edge_into(tree, jnp.maximum(child, 0)).discount == 0
    goes_on = (read_visits(action) > 0) & ~is_terminal & (depth + 1 < spec.max_depth)
    return LastEdge(parent=node, action=action, child=child, depth=jnp.ones_like(node)), goes_on
