"""The compiled parts of a search that is recorded: its setup, its single steps and its output."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.models.costs import evaluation_blocks
from dualmctx.models.game_model import mask_illegal, node_states
from dualmctx.models.network import cast_trunk
from dualmctx.models.search_fn import make_search_fn
from dualmctx.search.arrays import batched_gather
from dualmctx.search.expand import Leaves, expand, expand_leaves
from dualmctx.search.keys import split_key
from dualmctx.search.node import LastEdge, Node, Scores
from dualmctx.search.phases import SearchState
from dualmctx.search.refine import frontier, refine_best
from dualmctx.search.slots import has_slots, slot_actions, to_actions
from dualmctx.search.tree import Tree
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork


class View(NamedTuple):
    """The numbers of one element's trees that steps change.

    Attributes:
      edges: `[N]` int32, as in `Tree`.
      transitions: `[N, 2]`, as in `Tree`.
      raw_values: `[N]`, as in `Tree`.
      node_stats: `[N, 2]` for each tree, as in `TreeStats`.
      path_visits: `[N]` int32 for each tree; `None` without a window.
    """

    edges: Any
    transitions: Any
    raw_values: Any
    node_stats: tuple[Any, ...]
    path_visits: tuple[Any, ...]


class Start(NamedTuple):
    """The beginning of a search.

    Attributes:
      params: the parameters, perhaps cast.
      state: the search before its first step.
      priors: `[C]` the root's prior without noise, and as the rule reads it.
      view: the numbers of the trees.
    """

    params: Params
    state: SearchState
    priors: tuple[Array, Array]
    view: View


class Explanation(NamedTuple):
    """One choice of a rule at a node; C is the number of action slots.

    Attributes:
      actions: `[C]` int32, the game's action of each slot.
      legal: `[C]` bool, the slots among which the rule chooses.
      prior: `[C]` probabilities.
      visits: `[C]` int32.
      qvalues: `[C]`, 0 for unvisited actions, from the view of the player who chooses.
      reasons: `scores`, `explores`, `is_frozen`, `frozen`, `required_visits`, as far as the rule
        gives them.
    """

    actions: Any
    legal: Any
    prior: Any
    visits: Any
    qvalues: Any
    reasons: dict[str, Any]


class Refined(NamedTuple):
    """A refinement; K leaves, of which those that are not valid were not evaluated.

    Attributes:
      leaves: `[K]` int32.
      is_valid: `[K]` bool.
      frontier: `[N]` int32, all nodes by priority.
      is_waiting: `[N]` bool, those that the tree had not evaluated.
      values: `[K]` before, by the head alone, and after.
      priors: `[K, C]` probabilities before, by the head alone, and after.
    """

    leaves: Any
    is_valid: Any
    frontier: Any
    is_waiting: Any
    values: tuple[Any, Any, Any]
    priors: tuple[Any, Any, Any]


class Finish(NamedTuple):
    """The end of a search.

    Attributes:
      action: int32, the action.
      action_weights: `[A]`.
      visits: `[A]` int32 visits of the root's children, for each tree.
      states: `[N, ...]` states of the nodes.
      actions: `[N, C]` int32, the actions of the nodes' action slots; `None` if slots are actions.
    """

    action: Any
    action_weights: Any
    visits: tuple[Any, ...]
    states: Any
    actions: Any


def view_of(tree: Tree) -> View:
    """Returns the numbers of the first element of a batch."""
    stats = [jax.tree.map(lambda x: x[0], x.replace(extra={})) for x in tree.stats]
    return View(
        tree.edges[0],
        tree.transitions[0],
        tree.raw_values[0],
        tuple(x.node_stats for x in stats),
        tuple(x.path_visits for x in stats),
    )


class Programs:
    """The compiled parts of a policy's search of one position, for a game and a network.

    The first and the last phase are the policy's own. In between, the methods run the engine's
    steps one by one. All arrays have a batch axis of 1.
    """

    def __init__(
        self, env: Environment, network: PolicyValueNetwork, policy: Policy, **model_kwargs: Any
    ) -> None:
        """Takes the arguments of `make_search_fn`."""
        self.env, self.network, self.policy = env, network, policy
        self._model_kwargs = model_kwargs
        self._search_fn = make_search_fn(env, network, policy, **model_kwargs)
        self.start = jax.jit(self._start)
        self.finish = jax.jit(self._finish)
        self.evaluate_heads = jax.jit(self._evaluate_heads)
        # The first argument is the search, whose trees are not read.
        self.descend = _jit(_descend)
        self.explain = _jit(_explain)
        self.select_leaves = _jit(_select_leaves)
        # A step overwrites the trees in place.
        self.expand_and_backup = _jit(_expand_and_backup, donate_argnames="tree")
        self.expand_and_backup_leaves = _jit(_expand_and_backup_leaves, donate_argnames="tree")
        self.refine = _jit(_refine, donate_argnames="tree")

    @property
    def evaluation_blocks(self) -> tuple[int, ...] | None:
        """The blocks of a simulation of each tree, see `models.costs.evaluation_blocks`."""
        keep = self._model_kwargs.get("keep_activations", True)
        return evaluation_blocks(self.policy, self.network, keep_activations=keep)

    def _start(self, params: Params, rng_key: Array, state: Any) -> Start:
        begun = self._search_fn.init(params, rng_key, state)
        # A search with speculation equals the one without, which is recorded.
        begun = dataclasses.replace(begun, grown=begun.tree, guesses=None)
        tree = begun.grown
        noisy = tree.children_prior[:, Tree.ROOT_INDEX]
        clean, noisy = (probabilities(tree, prior)[0] for prior in (begun.prior, noisy))
        return Start(cast_trunk(self.network, params), begun, (clean, noisy), view_of(tree))

    def _finish(self, search: SearchState, state: Any) -> Finish:
        output, tree = self._search_fn.output(search), search.tree
        num_actions = state.legal_action_mask.shape[-1]
        visits = tuple(
            to_actions(tree, Node(tree, Tree.ROOT_INDEX, tree_index=i).visits, num_actions)[0]
            for i in range(len(tree.stats))
        )
        is_compact = self._model_kwargs.get("compact_states", False)
        states = node_states(self.env, tree, compact_states=is_compact)
        actions = tree.embeddings.actions[0] if has_slots(tree) else None
        return Finish(output.action[0], output.action_weights[0], visits, states, actions)

    def _evaluate_heads(self, params: Params, state: Any) -> tuple[Array, Array]:
        outputs = self.network.apply(params, state.observation)
        logits = jnp.stack([mask_illegal(x.logits, state.legal_action_mask)[0] for x in outputs])
        return jnp.stack([x.value[0] for x in outputs]), jax.nn.softmax(logits)


def _jit(step: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compiles a step for each of its static arguments, in programs of this call alone."""
    names = inspect.signature(step).parameters
    static = [x for x in ("tree_index", "width", "at_root") if x in names]
    return jax.jit(functools.partial(step), static_argnames=static, **options)


def _descend(search: SearchState, tree_index: int, rng_key: Array, tree: Tree) -> LastEdge:
    spec = search.spec(tree_index)
    return spec.backend.descend(spec, rng_key, tree)


def _explain(
    search: SearchState,
    tree_index: int,
    rng_key: Array,
    tree: Tree,
    node: Array,
    depth: Array,
    at_root: bool,
) -> Explanation:
    """Explains the choice at a `[1]` node; it is a batch, so that sums are those of the search."""
    spec = search.spec(tree_index)
    rule = (spec.root_rule if at_root else None) or spec.rule
    read = Node(tree, node, depth, tree_index)
    _, reasons = rule.explain(rng_key, read)
    if "scores" in reasons:
        reasons |= {"scores": _by_action(reasons["scores"], tree.num_actions)}
    legal = read.legal & ((tree.root_invalid_actions == 0) | (node[:, None] != Tree.ROOT_INDEX))
    numbers = legal, probabilities(tree, read.prior), read.visits, read.qvalues
    found = Explanation(slot_actions(tree, node), *numbers, reasons)
    return jax.tree.map(lambda x: x[0], found)


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


def _expand_and_backup(
    search: SearchState,
    tree_index: int,
    params: Params,
    rng_key: Array,
    tree: Tree,
    path: LastEdge,
    node_index: Array,
    is_active: Array | None,
) -> tuple[Tree, Array, View]:
    """Ends a simulation; also returns the `[1, C]` prior in the slot of the new node."""
    spec, end = search.spec(tree_index), (path, node_index, is_active)
    tree, new = expand(params, rng_key, tree, spec.evaluate_fn, *end)
    tree = spec.backend.insert_and_backup(spec, tree, path, new, node_index, is_active)
    return tree, _priors(tree, node_index[None]), view_of(tree)


def _select_leaves(
    search: SearchState, rng_key: Array, tree: Tree, first_slot: Array, limit: Array, width: int
) -> tuple[Tree, Leaves]:
    spec = search.spec()._replace(leaves_per_step=width)
    return spec.backend.select_leaves(spec, rng_key, tree, first_slot, limit)


def _expand_and_backup_leaves(
    search: SearchState, params: Params, rng_key: Array, tree: Tree, leaves: Leaves
) -> tuple[Tree, Array, View]:
    spec = search.spec()
    tree = expand_leaves(params, rng_key, tree, spec.evaluate_fn, leaves)
    tree = spec.backend.backup_parallel(spec, tree, leaves)
    return tree, _priors(tree, leaves.node[0]), view_of(tree)


def _refine(
    search: SearchState,
    tree_index: int,
    params: Params,
    rng_key: Array,
    tree: Tree,
    number: Array,
    width: int,
) -> tuple[Tree, Refined, View]:
    order, is_waiting = frontier(tree, tree.num_nodes, tree_index=tree_index)
    before, spec = tree, search.spec(tree_index)
    tree, leaves, is_valid, (value, prior) = refine_best(params, rng_key, tree, spec, width, number)
    values = (
        batched_gather(before.raw_values, leaves)[0],
        value[0],
        batched_gather(tree.raw_values, leaves)[0],
    )
    priors = _priors(before, leaves[0]), prior[0], _priors(tree, leaves[0])
    refined = Refined(leaves[0], is_valid[0], order[0], is_waiting[0], values, priors)
    return tree, refined, view_of(tree)


def _priors(tree: Tree, nodes: Array) -> Array:
    """Returns the `[K, C]` priors of `[K]` nodes of one element."""
    return probabilities(tree, tree.children_prior[0, nodes])


split_three: Callable[..., Any] = jax.jit(functools.partial(split_key, num=3))
