"""Selection: rules that choose an action at a node, and the one loop that walks down."""

from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import batched_gather, by_edge
from dualmctx.search.keys import EXPLORING, node_keys
from dualmctx.search.tree import Tree, edge_index, edge_into, get_children, is_legal
from dualmctx.types import Path, SelectFn


def argmax(score: chex.Array, actions: chex.Array | None = None) -> chex.Array:
    """Returns the lowest `[B]` int32 action with the largest of `[B, A]` scores.

    The same as `jnp.argmax` but for NaN, in two plain reductions, which XLA turns into vector
    instructions on CPUs, where its reduction of pairs goes one by one: 3 to 6 times faster at
    A = 362.

    Args:
      score: the scores; -inf for actions that must not be chosen. Where one is NaN, the lowest
        action is returned whose score is not -inf.
      actions: `[B, A]` which action each score is of, in any order; their index if `None`.

    Returns:
      The actions.
    """
    index = jax.lax.broadcasted_iota(jnp.int32, score.shape, score.ndim - 1)
    names = index if actions is None else actions
    best = jnp.max(score, axis=-1, keepdims=True)
    if jnp.issubdtype(score.dtype, jnp.floating):
        best = jnp.where(jnp.isnan(best), jnp.finfo(score.dtype).min, best)
    # NaN is not less than any number.
    is_best = ~(score < best)
    return jnp.min(jnp.where(is_best, names, jnp.iinfo(jnp.int32).max), axis=-1)


class QvaluesFn(Protocol):
    """Values the actions of one node of every tree, for a selection rule."""

    def __call__(self, tree: Tree, node_index: chex.Array, tree_index: int) -> chex.Array:
        """Returns `[B, A]`, seen by the player to move at the node."""
        ...


def mean_qvalues(tree: Tree, node_index: chex.Array, tree_index: int = 0) -> chex.Array:
    """Returns the `[B, A]` mean Q(s, a), 0 for unvisited actions: what PUCT compares."""
    return get_children(tree, node_index, tree_index).qvalues


def completed_qvalues(tree: Tree, node_index: chex.Array, tree_index: int = 0) -> chex.Array:
    """Returns the `[B, A]` mean Q(s, a), the node's own mean for unvisited actions."""
    visits, qvalues = get_children(tree, node_index, tree_index)
    value = batched_gather(tree.stats[tree_index].node_stats, node_index)[:, 1]
    return jnp.where(visits > 0, qvalues, value[:, None])


def puct(*, c_puct: float, tree_index: int = 0, qvalues_fn: QvaluesFn = mean_qvalues) -> SelectFn:
    """Makes the PUCT rule.

    Formula:
        argmax_a  Q(s,a) + c · P(s,a) · sqrt(max(1, Σ_b N(s,b))) / (1 + N(s,a))

    over actions with P > 0, with Q = 0 where N = 0 and ties to the lowest action. It reads
    probabilities from `Tree.children_prior` and uses no randomness.

    Args:
      c_puct: c, the weight of exploration; positive.
      tree_index: the tree whose statistics are read.
      qvalues_fn: what stands for Q; the mean of the returns unless a variant says otherwise.

    Returns:
      The selection function.

    Source: Silver et al. 2017 (AlphaZero); Kadam, Xu, Lieberherr 2021, eq. 1.
    """

    def select(rng_key: Any, tree: Tree, node_index: chex.Array, depth: Any) -> chex.Array:
        del rng_key, depth
        prior = batched_gather(tree.children_prior, node_index)
        visits, qvalues = get_children(tree, node_index, tree_index)
        if qvalues_fn is not mean_qvalues:
            qvalues = qvalues_fn(tree, node_index, tree_index)
        total = jnp.sum(visits, axis=-1, keepdims=True).astype(prior.dtype)
        exploration = c_puct * prior * jnp.sqrt(jnp.maximum(total, 1)) / (1 + visits)
        score = jnp.where(prior > 0, qvalues + exploration, -jnp.inf)
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
    """Makes a rule epsilon-greedy at the nodes whose statistics a windowed backup leaves stale.

    At depth k, where the subtree below the node is higher than the window, an action is drawn
    uniformly from the legal ones with probability ε0 · ν^k; elsewhere `select_fn` decides.

    Args:
      select_fn: the rule to follow otherwise.
      window: τ, in edges.
      explore_fraction: ε0 in [0, 1].
      explore_decay: ν in [0, 1].
      tree_index: the tree whose heights are read.

    Returns:
      The selection function.

    Source: Kadam, Xu, Lieberherr 2021, section 3, eq. 4. Readings: the paper tests a node's
    distance to a leaf that is not known yet, here the height of its subtree stands for it; k is
    the depth; the frozen action a_k is the argmax of the stale score.
    """

    def select(rng_key: Any, tree: Tree, node_index: chex.Array, depth: Any) -> chex.Array:
        greedy = select_fn(rng_key, tree, node_index, depth)
        legal = is_legal(tree, node_index)
        is_outside = batched_gather(tree.stats[tree_index].heights, node_index) > window
        # Walks that are over stay at the root.
        is_outside &= (depth == 0) | (node_index != Tree.ROOT_INDEX)

        def explore(greedy: chex.Array) -> chex.Array:
            # A key for each tree, so that its draws do not depend on how many trees there are.
            keys = node_keys(rng_key, EXPLORING, depth, node_index.shape[0])
            draws = jax.vmap(lambda key: jax.random.uniform(key, (2,)))(keys)
            explores = is_outside & (draws[:, 0] < explore_fraction * explore_decay**depth)
            # By rank, so that the draw is the same where children are limited to the legal ones.
            rank = jnp.floor(draws[:, 1] * jnp.sum(legal, axis=-1)).astype(jnp.int32)
            uniform = argmax(jnp.cumsum(legal, axis=-1) > rank[:, None])
            return jnp.where(explores, uniform, greedy)

        # Drawing takes half as long as all else, and few nodes below the root are outside.
        return jax.lax.cond(jnp.any(is_outside), explore, lambda greedy: greedy, greedy)

    return select


class _Walk(NamedTuple):
    path: Path
    is_walking: chex.Array
    depth: chex.Array


def descend(
    rng_key: chex.PRNGKey,
    tree: Tree,
    root_select_fn: SelectFn,
    interior_select_fn: SelectFn,
    *,
    max_depth: int,
    tree_index: int = 0,
    is_active: chex.Array | None = None,
) -> Path:
    """Walks down from the roots to where a simulation ends.

    A walk ends on an edge into a node that does not exist or that the layer has not visited, into
    a terminal node, or at `max_depth`. The elements of the batch walk in step, so depth is a
    scalar. A rule of the root's own runs once, outside the loop; where the root has the rule of the
    other nodes, the loop starts there, and the rule is compiled once.

    Args:
      rng_key: consumed by the rules.
      tree: the trees.
      root_select_fn: the rule at the root.
      interior_select_fn: the rule below it.
      max_depth: the largest number of edges, at least 1.
      tree_index: the tree that is walked.
      is_active: `[B]` bool, elements that walk, all if `None`; the others end at the root.

    Returns:
      The last edges of the walks (of no meaning where inactive).
    """
    visits, children = by_edge(tree.stats[tree_index].children_visits), by_edge(tree.children_index)

    def step(select_fn: SelectFn, node: chex.Array, depth: Any) -> tuple:
        action = select_fn(rng_key, tree, node, depth)
        edge = edge_index(tree, node, action)
        child = batched_gather(children, edge).astype(jnp.int32)
        is_terminal = edge_into(tree, jnp.maximum(child, 0)).discount == 0
        goes_on = (batched_gather(visits, edge) > 0) & ~is_terminal & (depth + 1 < max_depth)
        return action, child, goes_on

    def body(walk: _Walk) -> _Walk:
        # Walks that are over stay at the root, where a rule is least likely to need a tie-break.
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
    return jax.lax.while_loop(lambda walk: jnp.any(walk.is_walking), body, walk).path
