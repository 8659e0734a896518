"""Explanations on the device: the inputs and scores of a selection rule along a path."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.node import Node, Rule, Scores
from dualmctx.search.phases import SearchState
from dualmctx.search.slots import slot_actions
from dualmctx.search.tree import Tree

CHUNK = 16
"""The number of nodes that one call explains."""


class Explanation(NamedTuple):
    """One choice of a rule at each of L nodes; C is the number of action slots.

    Attributes:
      actions: `[L, C]` int32, the game's action of each slot.
      legal: `[L, C]` bool, the slots among which the rule chooses.
      prior: `[L, C]` probabilities.
      visits: `[L, C]` int32.
      qvalues: `[L, C]`, 0 for unvisited actions, from the view of the player who chooses.
      chosen: `[L]` int32, the chosen slot.
      reasons: `scores`, `explores`, `is_frozen`, `frozen`, `required_visits`, as far as the rule
        gives them.
    """

    actions: Any
    legal: Any
    prior: Any
    visits: Any
    qvalues: Any
    chosen: Any
    reasons: dict[str, Any]


def explain(
    search: SearchState,
    tree_index: int,
    rng_key: Array,
    tree: Tree,
    nodes: Array,
    first_depth: Array,
    number: Array,
    at_root: bool,
) -> Explanation:
    """Explains the choices of the selection rule at nodes of one path.

    Each node is a batch of one, as in the search, so that sums have the same order.

    Args:
      search: the search, whose trees are not read.
      tree_index: the tree that selects.
      rng_key: the key of the descent.
      tree: the trees before the simulation, a batch of one.
      nodes: `[CHUNK]` int32, nodes at successive depths; entries from `number` on are ignored.
      first_depth: scalar int32, the depth of the first node.
      number: scalar int32, the number of nodes.
      at_root: whether the rule of the root chooses, if the search has one.
    """
    spec = search.spec(tree_index)
    rule = (spec.root_rule if at_root else None) or spec.rule

    def one(row: tuple[Array, Array]) -> Explanation:
        node, place = row

        def run() -> Explanation:
            return _explain_node(rule, tree_index, rng_key, tree, node[None], first_depth + place)

        def skip() -> Explanation:
            return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(run))

        return jax.lax.cond(place < number, run, skip)

    found = jax.lax.map(one, (nodes, jnp.arange(CHUNK)))
    return jax.tree.map(lambda x: x[:, 0], found)


def _explain_node(
    rule: Rule, tree_index: int, rng_key: Array, tree: Tree, node: Array, depth: Array
) -> Explanation:
    read = Node(tree, node, depth, tree_index)
    chosen, reasons = rule.explain(rng_key, read)
    if "scores" in reasons:
        reasons |= {"scores": _by_action(reasons["scores"], tree.num_actions)}
    legal = read.legal & ((tree.root_invalid_actions == 0) | (node[:, None] != Tree.ROOT_INDEX))
    numbers = legal, probabilities(tree, read.prior), read.visits, read.qvalues
    return Explanation(slot_actions(tree, node), *numbers, chosen, reasons)


def probabilities(tree: Tree, prior: Array) -> Array:
    """Returns `[..., A]` priors of a tree as probabilities."""
    return jax.nn.softmax(prior) if tree.prior_is_logits else prior


def _by_action(scores: Scores, num_actions: int) -> Scores:
    """Returns scores with one column for each action; -inf for actions that were not scored."""
    addends = tuple(jnp.broadcast_to(x, scores.score.shape) for x in scores.addends)
    if scores.actions is None:
        return dataclasses.replace(scores, addends=addends)
    rows = jnp.arange(scores.score.shape[0])[:, None]

    def spread(values: Array, fill: float) -> Array:
        empty = jnp.full((values.shape[0], num_actions), fill, values.dtype)
        return empty.at[rows, scores.actions].set(values)

    addends = tuple(spread(x, 0.0) for x in addends)
    return Scores(addends, spread(scores.score, -jnp.inf), scores.names)
