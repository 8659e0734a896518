"""Selection: rules that choose an action at a node, and the descent from the roots."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import any_true, batched_gather, gather_pair, read_edges
from dualmctx.search.keys import EXPLORING, node_keys, uniform_columns
from dualmctx.search.references import lane_index
from dualmctx.search.reports import Scores, report, run_if
from dualmctx.search.tree import Tree, edge_into, get_children, is_legal
from dualmctx.types import Path, SelectFn


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


class RowRule(NamedTuple):
    """A selection rule with arrays of its own, such as the noise of the roots; a `SelectFn`.

    A kernel cannot read arrays over which a function closes. It loads the rows of its tree.

    Attributes:
      function: takes the arrays, and then the arguments of a `SelectFn`.
      rows: the arrays, a pytree of `[B]` and `[B, L]`.
    """

    function: Callable[..., Array]
    rows: Any

    def __call__(self, rng_key: Any, tree: Tree, node_index: Array, depth: Any) -> Array:
        """Chooses `[B]` actions."""
        return self.function(self.rows, rng_key, tree, node_index, depth)


class QvaluesFn(Protocol):
    """Computes the Q-values that a selection rule uses at one node of every tree."""

    def __call__(self, tree: Tree, node_index: Array, tree_index: int) -> Array:
        """Returns `[B, A]` Q-values, from the view of the player to move at the node."""
        ...


def mean_qvalues(tree: Tree, node_index: Array, tree_index: int = 0) -> Array:
    """Returns the `[B, A]` means Q(s, a), 0 for unvisited actions, as PUCT uses them."""
    return get_children(tree, node_index, tree_index).qvalues


def completed_qvalues(tree: Tree, node_index: Array, tree_index: int = 0) -> Array:
    """Returns the `[B, A]` means Q(s, a), with the node's own mean for unvisited actions."""
    visits, qvalues = get_children(tree, node_index, tree_index)
    _, value = gather_pair(tree.stats[tree_index].node_stats, node_index)
    return jnp.where(visits > 0, qvalues, value[:, None])


def puct(*, c_puct: float, tree_index: int = 0, qvalues_fn: QvaluesFn = mean_qvalues) -> SelectFn:
    """Returns the PUCT rule.

    Formula:
        argmax_a  Q(s,a) + c · P(s,a) · sqrt(max(1, Σ_b N(s,b))) / (1 + N(s,a))

    over actions with P > 0. Q is 0 where N = 0, and ties go to the lowest action. The rule is
    deterministic. It reads probabilities from `Tree.children_prior`.

    Args:
      c_puct: c, the weight of exploration; positive.
      tree_index: the tree whose statistics are read.
      qvalues_fn: computes Q; by default the mean of the returns.

    Returns:
      The selection function.

    Source: Silver et al. 2017 (AlphaZero); Kadam, Xu, Lieberherr 2021, eq. 1.
    """

    def select(rng_key: Any, tree: Tree, node_index: Array, depth: Any) -> Array:
        del rng_key, depth
        prior = batched_gather(tree.children_prior, node_index)
        visits, qvalues = get_children(tree, node_index, tree_index)
        if qvalues_fn is not mean_qvalues:
            qvalues = qvalues_fn(tree, node_index, tree_index)
        total = jnp.sum(visits, axis=-1, keepdims=True).astype(prior.dtype)
        exploration = c_puct * prior * jnp.sqrt(jnp.maximum(total, 1)) / (1 + visits)
        score = jnp.where(prior > 0, qvalues + exploration, -jnp.inf)
        report(scores=Scores((qvalues, exploration), score, ("Q", "exploration")))
        return argmax(score)

    return select


def explore_outside_window(
    select_fn: SelectFn,
    *,
    window: int,
    explore_fraction: float,
    explore_decay: float,
    tree_index: int = 0,
) -> SelectFn:
    """Returns a rule that is epsilon-greedy at nodes whose statistics a window leaves stale.

    If the subtree below a node at depth k is higher than the window, the rule samples a legal
    action uniformly with probability ε0 · ν^k. In all other cases `select_fn` decides.

    Args:
      select_fn: the underlying rule.
      window: τ, in edges.
      explore_fraction: ε0 in [0, 1].
      explore_decay: ν in [0, 1].
      tree_index: the tree whose heights are read.

    Returns:
      The selection function.

    Source: Kadam, Xu, Lieberherr 2021, section 3, eq. 4. Our readings: the paper tests the distance
    of a node to a leaf that is not known yet; here the height of its subtree replaces that
    distance. k is the depth. The frozen action a_k is the argmax of the stale scores.
    """

    def select(rng_key: Any, tree: Tree, node_index: Array, depth: Any) -> Array:
        greedy = select_fn(rng_key, tree, node_index, depth)
        legal = is_legal(tree, node_index)
        heights = tree.stats[tree_index].heights
        assert heights is not None, "the tree was not allocated for a window"
        is_outside = batched_gather(heights, node_index) > window
        # Descents that have ended stay at the root.
        is_outside &= (depth == 0) | (node_index != Tree.ROOT_INDEX)

        def explore(greedy: Array) -> Array:
            # One key per element, so that its samples do not depend on the batch size.
            keys = node_keys(rng_key, EXPLORING, depth, node_index.shape[0])
            chance, position = uniform_columns(keys, 2)
            explores = is_outside & (chance < explore_fraction * explore_decay**depth)
            report(explores=explores)
            # By rank, so that the sample is the same if the children are limited to the legal ones.
            rank = jnp.floor(position * jnp.sum(legal, axis=-1)).astype(jnp.int32)
            ranks = jnp.cumsum(legal.astype(jnp.int32), axis=-1)
            choice = argmax((ranks > rank[:, None]).astype(jnp.int32))
            return jnp.where(explores, choice, greedy)

        # Sampling takes half as long as the rest of the rule, and few nodes below the root need it.
        return run_if(any_true(is_outside), explore, greedy)

    return select


class _Walk(NamedTuple):
    path: Path
    is_walking: Array
    depth: Array


def descend(
    rng_key: Array,
    tree: Tree,
    root_select_fn: SelectFn,
    interior_select_fn: SelectFn,
    *,
    max_depth: int,
    tree_index: int = 0,
    is_active: Array | None = None,
) -> Path:
    """Descends from the roots to the ends of simulations.

    A descent ends with an edge into a node that does not exist, that the tree has not visited or
    that is terminal, or at `max_depth`. All elements of the batch are at the same depth, a scalar.
    A separate root rule runs once, before the loop. If the root has the same rule as the other
    nodes, the loop starts at the root, and the rule is compiled once.

    Args:
      rng_key: consumed by the rules.
      tree: the trees.
      root_select_fn: the rule at the root.
      interior_select_fn: the rule below the root.
      max_depth: the largest number of edges, at least 1.
      tree_index: the tree whose visits decide where a descent ends.
      is_active: `[B]` bool, elements that descend, all if `None`; the others stay at the root.

    Returns:
      The last edge of each path (undefined where inactive).
    """

    def step(select_fn: SelectFn, node: Array, depth: Array) -> tuple[Array, Array, Array]:
        read_visits = read_edges(tree.stats[tree_index].children_visits, node)
        read_child = read_edges(tree.children_index, node)
        action = select_fn(rng_key, tree, node, depth)
        child = read_child(action).astype(jnp.int32)
        is_terminal = edge_into(tree, jnp.maximum(child, 0)).discount == 0
        goes_on = (read_visits(action) > 0) & ~is_terminal & (depth + 1 < max_depth)
        return action, child, goes_on

    def body(walk: _Walk) -> _Walk:
        # Finished descents wait at the root. Ties are rare there, so a rule that samples only to
        # break ties seldom has to.
        node = jnp.where(walk.is_walking, walk.path.child, Tree.ROOT_INDEX)
        action, child, goes_on = step(interior_select_fn, node, walk.depth)
        new = Path(parent=node, action=action, child=child, depth=walk.path.depth + 1)
        path = jax.tree.map(lambda x, y: jnp.where(walk.is_walking, x, y), new, walk.path)
        return _Walk(path, walk.is_walking & goes_on, walk.depth + 1)

    root = jnp.full(tree.edges.shape[0], Tree.ROOT_INDEX, jnp.int32)
    start = Path(parent=root, action=root, child=root, depth=jnp.zeros_like(root))
    active = jnp.ones(root.shape, bool) if is_active is None else is_active
    walk = _Walk(start, active, jnp.int32(0))
    if root_select_fn is not interior_select_fn:
        action, child, goes_on = step(root_select_fn, root, jnp.int32(0))
        path = Path(parent=root, action=action, child=child, depth=jnp.ones_like(root))
        walk = _Walk(path, active & goes_on, jnp.int32(1))
    return jax.lax.while_loop(lambda walk: any_true(walk.is_walking), body, walk).path
