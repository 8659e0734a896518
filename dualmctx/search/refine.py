"""Refinement: a later head evaluates nodes that earlier trees found, many at once."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import batched_gather
from dualmctx.search.backup import backup_leaves, correct_leaves
from dualmctx.search.forced_root import ForcedRule
from dualmctx.search.keys import repeat_key
from dualmctx.search.spec import SearchSpec
from dualmctx.search.subtree import find_descendants
from dualmctx.search.tree import Tree, edge_into
from dualmctx.types import Params, RefineFn


def map_refine_fns(wrap: Callable[[RefineFn], RefineFn], refine_fn: Any) -> Any:
    """Wraps a `refine_fn`, or each of a tuple of them; returns `None` for `None`.

    A function may itself be a pytree, such as `jax.tree_util.Partial`.
    """
    if refine_fn is None:
        return None
    return tuple(map(wrap, refine_fn)) if isinstance(refine_fn, tuple) else wrap(refine_fn)


def frontier(
    tree: Tree, num_leaves: int, *, tree_index: int, root_action: Array | None = None
) -> tuple[Array, Array]:
    """Returns the nodes that a tree should evaluate next, ranked by counts of the earlier trees.

    Nodes are ranked by the number of simulations of the previous tree that passed through them.
    Ties are broken by the count in the tree before that one, and so on, and then in favour of the
    older node. In each tree the count of a node is at most that of its parent, and children are
    younger than their parents. The best `num_leaves` nodes are therefore connected to the nodes
    that the tree has evaluated, and choosing them one after the other gives the same nodes.

    Args:
      tree: the trees.
      num_leaves: K, the number of nodes.
      tree_index: the tree that evaluates; at least 1.
      root_action: `[B]` int32, action slots of the root below which the nodes are; -1 for the whole
        tree, `None` for all whole trees.

    Returns:
      `[B, K]` int32 nodes, best first; and `[B, K]` bool, false where no node is left because the
      tree has visited all of them.

    Source: Lan et al. 2019 (MPV-MCTS), Algorithm 2. Our readings: a window does not limit the
    count, because a limited count saturates near the root; and the order for more than two trees.
    Kadam, Xu, Lieberherr 2021, section 6, only mention such searches.
    """
    others = (*tree.stats[:tree_index], *tree.stats[tree_index + 1 :])
    is_node = functools.reduce(jnp.logical_or, [stats.node_visits > 0 for stats in others])
    is_waiting = is_node & (tree.stats[tree_index].node_visits == 0)
    if root_action is not None:
        # An edge from the root has the number of its slot, and the root itself has -1.
        is_waiting &= find_descendants(tree.parents, tree.edges == root_action[:, None])

    counts = [
        before.node_visits if before.path_visits is None else before.path_visits
        for before in reversed(tree.stats[:tree_index])
    ]
    order = _sort_nodes(counts, is_waiting)[:, :num_leaves]
    return order, batched_gather(is_waiting, order)


def _sort_nodes(counts: list[Array], is_waiting: Array) -> Array:
    """Returns `[B, N]` nodes: waiting ones first, in descending lexicographic order of counts."""
    num_nodes = is_waiting.shape[1]
    nodes = jax.lax.broadcasted_iota(jnp.int32, is_waiting.shape, 1)
    radices = [jnp.max(count) + 1 for count in counts]

    def sort_one_key() -> Array:
        key = jnp.zeros_like(nodes)
        for count, radix in zip(counts, radices, strict=True):
            key = radix * key + count
        key = jnp.where(is_waiting, -key, 1) * num_nodes + nodes
        return jnp.mod(jax.lax.sort(key, dimension=1, is_stable=False), num_nodes)

    def sort_several_keys() -> Array:
        keys = [jnp.where(is_waiting, -count, 1) for count in counts]
        operands = (*keys, nodes)
        return jax.lax.sort(operands, dimension=1, num_keys=len(keys), is_stable=True)[-1]

    # On a CPU, XLA sorts single numbers many times faster than tuples. The counts of one search
    # nearly always fit into one number. Those of reused trees, or of 50,000 nodes, may not.
    span = functools.reduce(jnp.multiply, [radix.astype(jnp.float32) for radix in radices])
    fits = span * num_nodes < 2**30
    return jax.lax.platform_dependent(
        cuda=sort_several_keys,  # A condition would wait for the GPU.
        default=lambda: jax.lax.cond(fits, sort_one_key, sort_several_keys),
    )


def refine(
    params: Params,
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    leaves: Array,
    is_valid: Array,
) -> tuple[Tree, tuple[Array, Array]]:
    """Evaluates leaves by a later head, adds them to its tree and corrects the earlier trees.

    Formula:
        V ← α V + (1 − α) v;   P ← β P + (1 − β) p

    where v and p are the outputs of the later head. Terminal nodes keep their exact value. A leaf
    that an even later tree has already evaluated is added without a new evaluation, because the
    output of the last head takes precedence.

    Args:
      params: passed on to `refine_fn`.
      rng_key: consumed by `refine_fn`, which is called once on all `[B·K, ...]` embeddings.
      tree: the trees.
      spec: the later tree, with the later head and the mixture.
      leaves: `[B, K]` int32, nodes that the later tree has not evaluated; distinct in each row.
      is_valid: `[B, K]` bool, false for leaves to ignore.

    Returns:
      The trees, with new `raw_values` and `children_prior`, which all trees share; and the outputs
      of the head: `[B, K]` values and `[B, K, A]` priors in the form of `Tree.children_prior`.

    Source: Kadam, Xu, Lieberherr 2021, section 3 ("the policy and the value for that state would
    be the same").
    """
    refinement, is_new = spec.refinement, is_valid
    assert refinement is not None
    for later in tree.stats[spec.tree_index + 1 :]:
        is_new &= batched_gather(later.node_visits, leaves) == 0
    shape = leaves.shape
    embedding = jax.tree.map(lambda x: batched_gather(x, leaves), tree.embeddings)
    # Not -1 rows, which arrays without entries do not determine.
    embedding = jax.tree.map(lambda x: x.reshape(shape[0] * shape[1], *x.shape[2:]), embedding)
    logits, value = refinement.refine_fn(params, repeat_key(rng_key, shape[1]), embedding)
    chex.assert_shape(logits, (shape[0] * shape[1], tree.num_actions))
    chex.assert_shape(value, (shape[0] * shape[1],))
    old_value = batched_gather(tree.raw_values, leaves)
    old_prior = batched_gather(tree.children_prior, leaves)
    value = value.reshape(shape)
    mixed_value = refinement.value_mix * old_value + (1 - refinement.value_mix) * value
    prior = refinement.to_prior(logits).reshape(*shape, tree.num_actions).astype(old_prior.dtype)
    mixed_prior = mix_priors(old_prior, prior, refinement.prior_mix)
    is_mixed = is_new & (edge_into(tree, leaves).discount != 0)
    batch = jnp.arange(shape[0])[:, None]
    target = jnp.where(is_mixed, leaves, tree.num_nodes)
    tree = tree.replace(
        raw_values=tree.raw_values.at[batch, target].set(mixed_value, mode="drop"),
        children_prior=tree.children_prior.at[batch, target].set(mixed_prior, mode="drop"),
    )
    change = jnp.where(is_mixed, mixed_value - old_value, 0)
    for earlier in range(spec.tree_index):
        own = spec._replace(tree_index=earlier)
        tree = correct_leaves(own, tree, leaves, change, is_new)
    return backup_leaves(spec, tree, leaves, is_valid), (value, prior)


def refine_best(
    params: Params,
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    width: int,
    number: Array,
) -> tuple[Tree, Array, Array, tuple[Array, Array]]:
    """Evaluates the best leaves of the frontier by a later head, those below a forced action.

    Args:
      params: passed on to `refine_fn`.
      rng_key: consumed by `refine_fn`.
      tree: the trees.
      spec: the later tree, with the later head and the mixture.
      width: K, the largest number of leaves in any round.
      number: scalar int32, the number of leaves in this round.

    Returns:
      The trees; `[B, K]` int32 leaves; `[B, K]` bool, those that were evaluated; and the outputs.
    """
    rule = spec.root_rule
    action = rule.action if isinstance(rule, ForcedRule) else None
    leaves, is_valid = frontier(tree, width, tree_index=spec.tree_index, root_action=action)
    is_valid &= jnp.arange(width)[None] < number
    tree, found = refine(params, rng_key, tree, spec, leaves, is_valid)
    return tree, leaves, is_valid, found


def mix_priors(earlier: Array, later: Array, mix: float) -> Array:
    """Mixes `[..., A]` probabilities of two heads; `mix` is the weight of the earlier head.

    If logits of the earlier head were not finite, it has no positive probability. The result then
    has none either, so that `is_finite` still finds the node.
    """
    is_finite = jnp.any(earlier > 0, axis=-1, keepdims=True)
    return jnp.where(is_finite, mix * earlier + (1 - mix) * later, 0)
