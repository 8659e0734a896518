"""mctx's selection rules on our trees: any of them unchanged, and its main ones rewritten, fast."""

import functools
import math
from typing import Any, Protocol

import chex
import jax
import jax.numpy as jnp
import mctx
import numpy as np

from dualmctx.search.arrays import batched_gather, by_edge
from dualmctx.search.keys import element_keys
from dualmctx.search.select import argmax
from dualmctx.search.tree import Tree, edge_index, edge_into, gather_children
from dualmctx.types import SelectFn

FLOOR = -1e9
"""mctx's floor of a Gumbel root's scores keeps an action that is the only one considered, however
unlikely."""


class MctxRule(Protocol):
    """An action selection function of mctx: an unbatched key, tree, node index and depth."""

    def __call__(
        self, rng_key: chex.PRNGKey, tree: mctx.Tree, node_index: Any, depth: Any
    ) -> chex.Array:
        """Chooses an action."""
        ...


class MctxRootRule(Protocol):
    """A root action selection function of mctx: an unbatched key, tree and node index."""

    def __call__(self, rng_key: chex.PRNGKey, tree: mctx.Tree, node_index: Any) -> chex.Array:
        """Chooses an action."""
        ...


class QTransform(Protocol):
    """A qtransform of mctx: an unbatched tree and a node index to `[A]` scores."""

    def __call__(self, tree: mctx.Tree, node_index: Any) -> chex.Array:
        """Transforms the Q-values of one node."""
        ...


@chex.dataclass(frozen=True)
class _NodeView(mctx.Tree):
    """Trees of one node, the one to select from, always at index 0.

    mctx computes Q-values from the children's rewards, discounts and values. Ours are stored; so
    these three are gathered only for a rule that reads them itself.
    """

    children_qvalues: chex.Array

    def qvalues(self, indices: Any) -> chex.Array:
        """Returns the stored Q-values."""
        return self.children_qvalues[indices]


def node_view(
    tree: Tree,
    node_index: chex.Array | int,
    tree_index: int = 0,
    actions: chex.Array | None = None,
) -> mctx.Tree:
    """Shows `[B]` nodes as a batch of mctx's trees that hold this node only, without embeddings.

    With `[B, K]` actions, the nodes appear to have these only.
    """
    stats = tree.stats[tree_index]

    def one(array: chex.Array) -> chex.Array:
        return batched_gather(array, node_index)[:, None]

    def row(array: chex.Array) -> chex.Array:
        if actions is None:
            return batched_gather(array, node_index)
        first = jnp.broadcast_to(edge_index(tree, jnp.asarray(node_index), jnp.int32(0)), batch)
        return batched_gather(by_edge(array), first[:, None] + actions)

    def of_children(array: chex.Array, part: int) -> chex.Array:
        known = gather_children(index, array)[..., part]
        return jnp.where(visits > 0, known, 0)[:, None]

    batch = tree.edges.shape[:1]
    edge = edge_into(tree, node_index)
    visits, index = row(stats.children_visits).astype(jnp.int32), row(tree.children_index)
    return _NodeView(
        node_visits=one(stats.node_stats)[..., 0].astype(jnp.int32),
        raw_values=one(tree.raw_values),
        node_values=one(stats.node_stats)[..., 1],
        parents=edge.parent[:, None],
        action_from_parent=one(tree.action_from_parent),
        children_index=index[:, None].astype(jnp.int32),
        children_prior_logits=row(tree.children_prior)[:, None],
        children_visits=visits[:, None],
        children_rewards=of_children(tree.transitions, 0),
        children_discounts=of_children(tree.transitions, 1),
        children_values=of_children(stats.node_stats, 1),
        embeddings=None,
        root_invalid_actions=tree.root_invalid_actions,
        extra_data=tree.extra_data,
        children_qvalues=row(stats.children_qvalues)[:, None],
    )


def mctx_rule(rule: MctxRule, *, tree_index: int = 0) -> SelectFn:
    """Makes a rule written for mctx run, unchanged, on our trees.

    The rule sees an `mctx.Tree` with a single node, the one to select from, always at index 0, and
    without embeddings; it reads logits from `Tree.children_prior`. So it may read what belongs to
    that node, as all of mctx's own rules do, and tell the root by its depth.

    Args:
      rule: an action selection function of mctx, or one with its signature.
      tree_index: the tree whose statistics the rule sees.

    Returns:
      The selection function, with mctx's keys. For the root's own rules: `mctx_root_rule`.
    """

    def select(rng_key: Any, tree: Tree, node_index: chex.Array, depth: Any) -> chex.Array:
        view = node_view(tree, node_index, tree_index)
        keys = _keys_of_mctx(rng_key, node_index.shape[0], depth)
        return jax.vmap(rule, in_axes=(0, 0, None, None))(keys, view, 0, depth)

    return select


def mctx_root_rule(rule: MctxRootRule, *, tree_index: int = 0) -> SelectFn:
    """Makes a rule that mctx calls at the root alone, without a depth, run on our trees.

    Args:
      rule: a root action selection function of mctx, or one with its signature.
      tree_index: the tree whose statistics the rule sees, as in `mctx_rule`.

    Returns:
      The selection function, with mctx's keys; for `SearchSpec.root_select_fn`.
    """

    def with_depth(
        rng_key: chex.PRNGKey, tree: mctx.Tree, node_index: Any, depth: Any
    ) -> chex.Array:
        del depth
        return rule(rng_key, tree, node_index)

    return mctx_rule(with_depth, tree_index=tree_index)


def gumbel_root(
    qtransform: QTransform, tree: Tree, *, num_simulations: int, max_num_considered_actions: int
) -> SelectFn:
    """Makes mctx's rule for a Gumbel root: Sequential Halving over likely actions.

    Formula:
        argmax_a  g(a) + logits(a) + q̂(a)   over the actions visited as often as is due,

    g being the root's Gumbel draws, in `Tree.extra_data`, and q̂ the transformed Q-values.

    All unvisited actions have the same q̂, so only the likeliest by g + logits are ever visited.
    Among many actions the rule looks at the likeliest of all, twice as many as are considered, if
    the qtransform is one of mctx's. The search is then mctx's, key by key, unless more than these
    have scores within rounding of each other, as without noise a network may that is all but
    indifferent between hundreds of actions: the choice among such equals may be another one.

    Under a window the backup leaves the root's counts as they are once the tree is higher, which
    would halt the schedule. So visits are then counted as passes, which the window does not cut
    short; Q and its weights in the qtransform are the window's, as everywhere.

    Args:
      qtransform: makes q̂.
      tree: the trees before the search.
      num_simulations: how many simulations there will be.
      max_num_considered_actions: how many actions Sequential Halving starts with.

    Returns:
      The selection function, for this search only.

    Source: Danihelka et al. 2022, section 3; `mctx.gumbel_muzero_root_action_selection`, of which
    this is the whole-batch form.
    """
    logits, is_invalid = (
        batched_gather(tree.children_prior, Tree.ROOT_INDEX),
        tree.root_invalid_actions > 0,
    )
    most = min(max_num_considered_actions, logits.shape[-1])
    due = np.array([_due_visits(n, num_simulations) for n in range(most + 1)], np.int32)
    num_considered = jnp.minimum(most, jnp.sum(~is_invalid, axis=-1, dtype=jnp.int32))
    likely = tree.extra_data.root_gumbel + (logits - jnp.max(logits, axis=-1, keepdims=True))
    # Twice as many as it takes, as adding q̂ can make a tie of scores that were almost one.
    num_kept, actions = 2 * most, None
    if _is_local(qtransform) and logits.shape[-1] >= 2 * num_kept:
        floored = jnp.where(is_invalid, -jnp.inf, jnp.maximum(FLOOR, likely))
        kept, actions = jax.lax.top_k(floored, num_kept)
        likely, is_invalid = jnp.take_along_axis(likely, actions, axis=-1), kept == -jnp.inf

    def select(rng_key: Any, tree: Tree, node_index: chex.Array, depth: Any) -> chex.Array:
        del rng_key, node_index, depth
        view = node_view(tree, Tree.ROOT_INDEX, actions=actions)
        visits = _passes(tree, view)
        is_due = visits == jnp.asarray(due)[num_considered, jnp.sum(visits, axis=-1)][:, None]
        completed = jax.vmap(qtransform, in_axes=(0, None))(view, 0)
        score = jnp.maximum(FLOOR, likely + completed)
        return argmax(jnp.where(is_invalid | ~is_due, -jnp.inf, score), actions)

    return select


def _passes(tree: Tree, view: mctx.Tree) -> chex.Array:
    passes = tree.stats[0].path_visits
    if passes is None:
        return view.children_visits[:, 0]
    return gather_children(view.children_index[:, 0], passes)


def _is_local(qtransform: QTransform) -> bool:
    """Whether a qtransform is known to need no more than the visited actions and one other."""
    if isinstance(qtransform, functools.partial):
        qtransform = qtransform.func
    return qtransform in (
        mctx.qtransform_completed_by_mix_value,
        mctx.qtransform_by_parent_and_siblings,
        mctx.qtransform_by_min_max,
    )


def _due_visits(num_considered: int, num_simulations: int) -> list[int]:
    """Returns how often the action of each simulation has been visited before it.

    In a phase all actions left are visited equally often; then half of them are dropped.
    """
    if num_considered <= 1:
        return list(range(num_simulations))
    num_phases = math.ceil(math.log2(num_considered))
    due: list[int] = []
    visits, left = 0, num_considered
    while len(due) < num_simulations:
        for _ in range(max(1, num_simulations // (num_phases * left))):
            due += [visits] * left
            visits += 1
        left = max(2, left // 2)
    return due[:num_simulations]


def gumbel_interior(qtransform: QTransform) -> SelectFn:
    """Makes mctx's rule for the nodes below a Gumbel root.

    Formula:
        argmax_a  softmax(logits + q̂)(a) − N(s,a) / (1 + Σ_b N(s,b)),   q̂ the transformed Q-values

    Source: Danihelka et al. 2022, section 5; `mctx.gumbel_muzero_interior_action_selection`, of
    which this is the whole-batch form.
    """

    def select(rng_key: Any, tree: Tree, node_index: chex.Array, depth: Any) -> chex.Array:
        del rng_key, depth
        view = node_view(tree, node_index)
        completed = jax.vmap(qtransform, in_axes=(0, None))(view, 0)
        visits = view.children_visits[:, 0]
        probs = jax.nn.softmax(view.children_prior_logits[:, 0] + completed)
        return argmax(probs - visits / (1 + jnp.sum(visits, axis=-1, keepdims=True)))

    return select


# mctx breaks ties by noise below 1e-7, which is added and rounded. A score that leads by more than
# that, and by what rounding can do, keeps its lead whatever the noise.
_NOISE = 1e-7
_ROUNDING = 2 * float(np.finfo(np.float32).eps)


def muzero(qtransform: QTransform, *, pb_c_init: float, pb_c_base: float) -> SelectFn:
    """Makes mctx's MuZero rule, which draws its noise only where it can decide.

    Formula:
        argmax_a  q̂(a) + (c1 + log((n + c2 + 1) / c2)) · sqrt(n) · P(s,a) / (1 + N(s,a)) + noise

    with n the node's visits. mctx draws noise for each action at each node to break ties, which
    takes longer than all the rest. Here it is drawn, the same noise, only when the two best scores
    of some tree in the batch are closer than the noise can reach.

    Source: Schrittwieser et al. 2020, appendix B; `mctx.muzero_action_selection`.
    """

    def select(rng_key: Any, tree: Tree, node_index: chex.Array, depth: Any) -> chex.Array:
        view = node_view(tree, node_index)
        visits = view.node_visits
        pb_c = pb_c_init + jnp.log((visits + pb_c_base + 1.0) / pb_c_base)
        probs = jax.nn.softmax(view.children_prior_logits[:, 0])
        policy_score = jnp.sqrt(visits) * pb_c * probs / (view.children_visits[:, 0] + 1)
        score = jax.vmap(qtransform, in_axes=(0, None))(view, 0) + policy_score
        is_masked = tree.root_invalid_actions * (depth == 0)

        def noisy() -> chex.Array:
            keys = _keys_of_mctx(rng_key, score.shape[0], depth)
            uniform = jax.vmap(lambda key: jax.random.uniform(key, score.shape[1:]))(keys)
            return argmax(jnp.where(is_masked, -jnp.inf, score + _NOISE * uniform))

        masked = jnp.where(is_masked, -jnp.inf, score)
        best = jnp.max(masked, axis=-1, keepdims=True)
        near = masked >= best - (_NOISE + _ROUNDING * jnp.abs(best))
        is_clear = jnp.sum(near, axis=-1) == 1
        return jax.lax.cond(jnp.all(is_clear), lambda: argmax(masked), noisy)

    return select


def _keys_of_mctx(rng_key: chex.PRNGKey, batch_size: int, depth: Any) -> chex.PRNGKey:
    """Returns the `[B]` keys with which mctx's search calls a rule at a depth."""
    split = jax.vmap(jax.random.split)
    keys = element_keys(rng_key, batch_size)
    keys = jax.lax.fori_loop(0, depth, lambda _, keys: split(keys)[:, 0], keys)
    return split(keys)[:, 1]
