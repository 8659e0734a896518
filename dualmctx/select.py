"""Selection: rules that choose an action at a node, and the one loop that walks down."""

from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.tree import Tree, get_children, take
from dualmctx.types import Path, SelectFn


class MctxRule(Protocol):
    """An action selection function of mctx: an unbatched key, tree, node index and depth."""

    def __call__(
        self, rng_key: chex.PRNGKey, tree: mctx.Tree, node_index: Any, depth: Any
    ) -> chex.Array:
        """Chooses an action."""
        ...


def puct(*, c_puct: float, layer: int = 0) -> SelectFn:
    """Makes the PUCT rule.

    Formula:
        argmax_a  Q(s,a) + c · P(s,a) · sqrt(max(1, Σ_b N(s,b))) / (1 + N(s,a))

    over actions with P > 0, with Q = 0 where N = 0 and ties to the lowest action. It reads
    probabilities from `Tree.children_prior` and uses no randomness.

    Args:
      c_puct: c, the weight of exploration; positive.
      layer: the tree whose statistics are read.

    Returns:
      The selection function.

    Source: Silver et al. 2017 (AlphaZero); Kadam, Xu, Lieberherr 2021, eq. 1.
    """

    def select(rng_keys: Any, tree: Tree, node_index: chex.Array, depth: Any) -> chex.Array:
        del rng_keys, depth
        prior = take(tree.children_prior, node_index)
        children = get_children(tree, node_index, layer)
        total = jnp.sum(children.visits, axis=-1, keepdims=True).astype(prior.dtype)
        exploration = c_puct * prior * jnp.sqrt(jnp.maximum(total, 1)) / (1 + children.visits)
        score = jnp.where(prior > 0, children.qvalues + exploration, -jnp.inf)
        return jnp.argmax(score, axis=-1).astype(jnp.int32)

    return select


def explore_outside_window(
    select_fn: SelectFn,
    *,
    window: int,
    explore_fraction: float,
    explore_decay: float,
    layer: int = 0,
) -> SelectFn:
    """Makes a rule epsilon-greedy at the nodes whose statistics a windowed backup leaves stale.

    At depth k, where the subtree below the node is higher than the window, an action is drawn
    uniformly from the legal ones with probability ε0 · ν^k; elsewhere `select_fn` decides.

    Args:
      select_fn: the rule to follow otherwise; legal actions have a positive prior.
      window: τ, in edges.
      explore_fraction: ε0 in [0, 1].
      explore_decay: ν in [0, 1].
      layer: the tree whose heights are read.

    Returns:
      The selection function; it consumes its keys.

    Source: Kadam, Xu, Lieberherr 2021, section 3, eq. 4. Readings: the paper tests a node's
    distance to a leaf that is not known yet, here the height of its subtree stands for it; k is
    the depth; the frozen action a_k is the argmax of the stale score.
    """

    def select(rng_keys: Any, tree: Tree, node_index: chex.Array, depth: Any) -> chex.Array:
        greedy = select_fn(rng_keys, tree, node_index, depth)
        draws = jax.vmap(lambda key: jax.random.uniform(key, (2,)))(rng_keys)
        legal = take(tree.children_prior, node_index) > 0
        rank = jnp.floor(draws[:, 1] * jnp.sum(legal, axis=-1)).astype(jnp.int32)
        uniform = jnp.argmax(jnp.cumsum(legal, axis=-1) > rank[:, None], axis=-1)
        is_outside = take(tree.layers[layer].heights, node_index) > window
        explores = is_outside & (draws[:, 0] < explore_fraction * explore_decay**depth)
        return jnp.where(explores, uniform.astype(jnp.int32), greedy)

    return select


def mctx_rule(rule: MctxRule, *, layer: int = 0) -> SelectFn:
    """Makes a rule written for mctx run, unchanged, on our trees.

    The rule sees an `mctx.Tree` with a single node, the one to select from, always at index 0, and
    without embeddings; it reads logits from `Tree.children_prior`. So it may read what belongs to
    that node, as all of mctx's own rules do, and tell the root by its depth.

    Args:
      rule: an action selection function of mctx, or one with its signature.
      layer: the tree whose statistics the rule sees.

    Returns:
      The selection function.
    """

    def select(rng_keys: Any, tree: Tree, node_index: chex.Array, depth: Any) -> chex.Array:
        children = get_children(tree, node_index, layer)
        stats = tree.layers[layer]

        def one(array: chex.Array) -> chex.Array:
            return take(array, node_index)[:, None]

        view = mctx.Tree(
            node_visits=one(stats.node_visits),
            raw_values=one(tree.raw_values),
            node_values=one(stats.node_values),
            parents=one(tree.parents),
            action_from_parent=one(tree.action_from_parent),
            children_index=one(tree.children_index),
            children_prior_logits=one(tree.children_prior),
            children_visits=children.visits[:, None],
            children_rewards=children.rewards[:, None],
            children_discounts=children.discounts[:, None],
            children_values=children.values[:, None],
            embeddings=None,
            root_invalid_actions=tree.root_invalid_actions,
            extra_data=tree.extra_data,
        )
        return jax.vmap(rule, in_axes=(0, 0, None, None))(rng_keys, view, 0, depth)

    return select


class _Walk(NamedTuple):
    rng_keys: chex.PRNGKey
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
    layer: int = 0,
) -> Path:
    """Walks down from the roots to where a simulation ends.

    A walk ends on an edge into a node that does not exist or that the layer has not visited, into
    a terminal node, or at `max_depth`. The elements of the batch walk in step, so depth is a
    scalar, and the root's rule runs once, outside the loop.

    Args:
      rng_key: consumed; split the way that `mctx.search` splits it, so that mctx's rules break
        ties as they do there.
      tree: the trees.
      root_select_fn: the rule at the root.
      interior_select_fn: the rule below it.
      max_depth: the largest number of edges, at least 1.
      layer: the tree that is walked.

    Returns:
      The last edges of the walks.
    """
    batch_size = tree.parents.shape[0]
    node_visits = tree.layers[layer].node_visits

    def step(rng_keys: Any, select_fn: SelectFn, node: chex.Array, depth: Any) -> tuple:
        split = jax.vmap(jax.random.split)(rng_keys)
        action = select_fn(split[:, 1], tree, node, depth)
        child = tree.children_index.at[jnp.arange(batch_size), node, action].get(
            mode="promise_in_bounds"
        )
        inside = jnp.maximum(child, 0)
        goes_on = (child != Tree.UNVISITED) & (take(node_visits, inside) > 0)
        goes_on &= (take(tree.discounts, inside) != 0) & (depth + 1 < max_depth)
        return split[:, 0], action, child, goes_on

    def body(walk: _Walk) -> _Walk:
        node = jnp.where(walk.is_walking, walk.path.child, walk.path.parent)
        rng_keys, action, child, goes_on = step(walk.rng_keys, interior_select_fn, node, walk.depth)
        new = Path(parent=node, action=action, child=child, depth=walk.path.depth + 1)
        path = jax.tree.map(lambda x, y: jnp.where(walk.is_walking, x, y), new, walk.path)
        return _Walk(rng_keys, path, walk.is_walking & goes_on, walk.depth + 1)

    root = jnp.full(batch_size, Tree.ROOT_INDEX, jnp.int32)
    rng_keys = jax.random.split(rng_key, batch_size)
    rng_keys, action, child, goes_on = step(rng_keys, root_select_fn, root, jnp.int32(0))
    path = Path(parent=root, action=action, child=child, depth=jnp.ones_like(root))
    walk = _Walk(rng_keys, path, goes_on, jnp.int32(1))
    return jax.lax.while_loop(lambda walk: jnp.any(walk.is_walking), body, walk).path
