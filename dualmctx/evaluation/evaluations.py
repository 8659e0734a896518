"""Evaluations of a batch of positions by a network and a search."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.models.game_model import mask_illegal
from dualmctx.search.arrays import expand_mask
from dualmctx.search.node import Node
from dualmctx.search.select import argmax
from dualmctx.search.slots import latest_children, principal_variation, to_actions
from dualmctx.search.tree import Tree, is_finite
from dualmctx.types import GameState, Params, PolicyValueNetwork, SearchFn

T = TypeVar("T")


MARKS = (("blunder", 0.4), ("mistake", 0.2), ("inaccuracy", 0.1))
"""Marks and the least loss of value that earns each, from the largest loss down.

Values are expected results in [-1, 1], so a loss of 1 turns a win into a draw, and a loss of 0.4 is
a fifth of the way from a certain win to a certain loss. These are the limits of chess.com's
classification of moves: 0.2, 0.1 and 0.05 of an expected score in [0, 1]. The page of `dualmctx
play` shows the marks as ??, ? and ?!.
"""
_LARGEST_SCORE = 12_800
_SCALE, _STEEPNESS = 90.0, 1.5637541897


def digest(ids: Iterable[str | int]) -> np.ndarray:
    """Returns `[S, 2]` uint32 digests of ids, stable across machines; 7 and "7" are equal ids."""
    # JSON strings may contain unpaired surrogates.
    texts = (str(identity).encode("utf-8", "surrogatepass") for identity in ids)
    digests = (hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), "<u4").reshape(-1, 2).astype(np.uint32)


def position_keys(rng_key: chex.PRNGKey, digests: chex.Array) -> chex.PRNGKey:
    """Folds `[B, 2]` digests into a key; a position's key depends on no other digest."""

    def fold(words: chex.Array) -> chex.PRNGKey:
        return jax.random.fold_in(jax.random.fold_in(rng_key, words[0]), words[1])

    return jax.vmap(fold)(digests)


def fill_batches(positions: T, batch_size: int) -> Iterator[T]:
    """Splits `[S, ...]` arrays into full NumPy batches; the last batch is padded by repetition.

    Indexing uses NumPy, because JAX would compile a program for each S.
    """
    positions = jax.tree.map(np.asarray, positions)
    num_positions = len(jax.tree.leaves(positions)[0])
    for start in range(0, num_positions, batch_size):
        index = np.arange(start, start + batch_size) % num_positions
        yield jax.tree.map(lambda x, index=index: x[index], positions)


def join(batches: Sequence[T], num_positions: int) -> T:
    """Fetches the results of padded batches and concatenates the first `num_positions` of them."""
    fetched = jax.device_get(batches)
    return jax.tree.map(lambda *x: np.concatenate(x)[:num_positions], *fetched)


# Maximum length of a principal variation.
_MAX_LINE_LENGTH = 32


class Evaluations(NamedTuple):
    """Evaluations of `[S]` positions by H heads of a network and K search trees, as NumPy arrays.

    If the game is over, `value` and `tree_values` are the result of the game, 0 for a draw, and
    there are no legal actions. All values are from the view of the player to move.

    Attributes:
      legal_action_mask: `[S, A]` bool.
      action: `[S]` int32, the action selected by the search; -1 if the game is over.
      value: `[S]` value of the search, in [-1, 1].
      action_weights: `[S, A]` action weights of the search, with sum 1; 0 if the game is over.
      visits: `[S, A]` int32, visits of the root's actions in the last tree, as the search counts
        them (with a window, the number of updates). With several trees, `action_weights` may come
        from another tree, so the selected action may have 0 visits here.
      qvalues: `[S, A]` Q of the root's actions in the last tree that visited them, NaN if none did.
      principal_variation: `[S, D]` int32, the selected action, then the most visited action of each
        following node, the lowest action on ties; padded with -1. It is read from the last tree
        that visited the selected action. D is the maximum depth of the search, at most 32.
      tree_values: `[S, K]` value of the root in each tree.
      network_action: `[S, H]` int32, the most probable legal action of each head; -1 if the game is
        over.
      network_policy: `[S, H, A]` probabilities of legal actions by each head; 0 if the game is
        over.
      network_value: `[S, H]` value of each head; NaN if the game is over.
      heads_agree: `[S]` bool, whether all heads have the same most probable action; true for one
        head and if the game is over.
      heads_distance: `[S]` in [0, 1], the largest total variation distance between the policy of a
        head and that of the last head; NaN for one head and if the game is over.
      is_finite: `[S]` bool, whether every output of the network was finite, for the position and in
        the search; true if the game is over. If false, the action is legal, and all other fields
        are undefined.
    """

    legal_action_mask: Any
    action: Any
    value: Any
    action_weights: Any
    visits: Any
    qvalues: Any
    principal_variation: Any
    tree_values: Any
    network_action: Any
    network_policy: Any
    network_value: Any
    heads_agree: Any
    heads_distance: Any
    is_finite: Any


class Decision(NamedTuple):
    """The decision in `[B]` positions; fields as in `Evaluations`."""

    action: chex.Array
    action_weights: chex.Array
    value: chex.Array
    visits: chex.Array
    qvalues: chex.Array
    principal_variation: chex.Array
    tree_values: chex.Array
    is_finite: chex.Array


class Heads(NamedTuple):
    """The network's own evaluations of `[B]` positions; fields as in `Evaluations`."""

    action: chex.Array
    policy: chex.Array
    value: chex.Array


DecideFn = Callable[[Params, chex.PRNGKey, GameState, Heads], Decision]
"""`(params, [B] keys, [B] states, heads) -> Decision`; it consumes the keys."""

EvaluateBatch = Callable[[Params, chex.PRNGKey, chex.Array, GameState], Evaluations]
"""`(params, key, [B, 2] digests, [B] states) -> [B] evaluations`, pure."""

EvaluatePositions = Callable[[Params, chex.PRNGKey, GameState], Evaluations]


def make_evaluate(
    network: PolicyValueNetwork, search_fn: SearchFn, batch_size: int
) -> EvaluatePositions:
    """Returns a function that evaluates any number of positions, compiled for one batch size.

    Args:
      network: a `dualmctx.models.network.Network`.
      search_fn: a variant bound to the game and the network, without noise.
      batch_size: number of positions per device call; the last batch is padded by repetition.

    Returns:
      `(params, rng_key, state) -> Evaluations` for `[S]` game states, S at least 1. It consumes
      the key. Each position gets its own key, so its evaluation does not depend on the batch size.
    """
    evaluate_batch = jax.jit(make_evaluate_batch(network, by_search(search_fn)))

    def evaluate(params: Params, rng_key: chex.PRNGKey, state: GameState) -> Evaluations:
        num_positions = state.current_player.shape[0]
        positions = (digest(range(num_positions)), state)
        batches = fill_batches(positions, batch_size)
        return join([evaluate_batch(params, rng_key, *batch) for batch in batches], num_positions)

    return evaluate


def make_evaluate_batch(network: PolicyValueNetwork, decide_fn: DecideFn) -> EvaluateBatch:
    """Returns a function that evaluates one batch on a device.

    Args:
      network: a `dualmctx.models.network.Network`.
      decide_fn: selects the actions: `by_search(...)` or `by_network`.

    Returns:
      A pure function, to be jitted. The key of a position is folded from the key and its digest, so
      it does not depend on the index of the position or on the other positions of the batch.
    """

    def evaluate_batch(
        params: Params, rng_key: chex.PRNGKey, digests: chex.Array, state: GameState
    ) -> Evaluations:
        heads = evaluate_heads(network, params, state)
        decision = decide_fn(params, position_keys(rng_key, digests), state, heads)
        return to_evaluations(state, heads, decision)

    return evaluate_batch


def to_evaluations(state: GameState, heads: Heads, decision: Decision) -> Evaluations:
    """Returns the evaluations of `[B]` states; if the game is over, its result replaces them."""
    agree, distance = _compare_heads(heads)
    all_finite = decision.is_finite & _are_finite(heads)
    over = state.terminated | state.truncated

    def unless_over(value: chex.Array, value_if_over: Any) -> chex.Array:
        return jnp.where(expand_mask(over, value), value_if_over, value)

    result = jnp.take_along_axis(state.rewards, state.current_player[:, None], axis=1)
    return Evaluations(
        legal_action_mask=unless_over(state.legal_action_mask, False),
        action=unless_over(decision.action.astype(jnp.int32), -1),
        value=unless_over(decision.value, result[:, 0]),
        action_weights=unless_over(decision.action_weights, 0.0),
        visits=unless_over(decision.visits, 0),
        qvalues=unless_over(decision.qvalues, jnp.nan),
        principal_variation=unless_over(decision.principal_variation, -1),
        tree_values=unless_over(decision.tree_values, result),
        network_action=unless_over(heads.action, -1),
        network_policy=unless_over(heads.policy, 0.0),
        network_value=unless_over(heads.value, jnp.nan),
        heads_agree=unless_over(agree, True),
        heads_distance=unless_over(distance, jnp.nan),
        is_finite=unless_over(all_finite, True),
    )


def by_search(search_fn: SearchFn) -> DecideFn:
    """Returns a function that decides by a search and reads its trees; see `Evaluations`."""

    def decide(params: Params, rng_keys: chex.PRNGKey, state: GameState, heads: Heads) -> Decision:
        del heads
        output = search_fn(params, rng_keys, state)
        return read_decision(output, state.legal_action_mask.shape[-1])

    return decide


def read_decision(output: Any, num_actions: int) -> Decision:
    """Reads the decision from an `mctx.PolicyOutput` of `[B]` positions with A actions."""
    tree = output.search_tree
    visits, qvalues = _read_root(tree, num_actions)
    length = min(tree.num_nodes - 1, _MAX_LINE_LENGTH)
    return Decision(
        action=output.action,
        action_weights=output.action_weights,
        value=tree.stats[-1].node_values[:, 0],
        visits=visits,
        qvalues=qvalues,
        principal_variation=principal_variation(tree, output.action, length),
        tree_values=jnp.stack([x.node_values[:, 0] for x in tree.stats], axis=-1),
        is_finite=is_finite(tree),
    )


def by_network(params: Params, rng_keys: chex.PRNGKey, state: GameState, heads: Heads) -> Decision:
    """Decides by the last head of the network, without trees, visits or Q-values."""
    del params, rng_keys
    action, no_visits = heads.action[:, -1], jnp.zeros_like(state.legal_action_mask, jnp.int32)
    return Decision(
        action=action,
        action_weights=heads.policy[:, -1],
        value=heads.value[:, -1],
        visits=no_visits,
        qvalues=jnp.full(no_visits.shape, jnp.nan),
        principal_variation=action[:, None],
        tree_values=jnp.zeros((*action.shape, 0)),
        is_finite=_are_finite(heads),
    )


def evaluate_heads(network: PolicyValueNetwork, params: Params, state: GameState) -> Heads:
    """Evaluates `[B]` states by every head of the network."""
    outputs = network.apply(params, state.observation)
    logits = [mask_illegal(output.logits, state.legal_action_mask) for output in outputs]
    logits = jnp.stack(logits, axis=1)
    is_legal = state.legal_action_mask[:, None]
    return Heads(
        action=argmax(jnp.where(is_legal, logits, -jnp.inf)),
        policy=jax.nn.softmax(logits, axis=-1),
        value=jnp.stack([output.value for output in outputs], axis=-1),
    )


def _are_finite(heads: Heads) -> chex.Array:
    """Returns `[B]` bool, whether every head's policy and value is finite."""
    numbers = jnp.concatenate([heads.policy, heads.value[..., None]], axis=-1)
    return jnp.all(jnp.isfinite(numbers), axis=(1, 2))


def _compare_heads(heads: Heads) -> tuple[chex.Array, chex.Array]:
    """Returns `heads_agree` and `heads_distance` of `Evaluations`."""
    agree = jnp.all(heads.action == heads.action[:, -1:], axis=-1)
    if heads.action.shape[1] == 1:
        return agree, jnp.full(agree.shape, jnp.nan)
    differences = jnp.abs(heads.policy[:, :-1] - heads.policy[:, -1:])
    return agree, jnp.max(jnp.sum(differences, axis=-1) / 2, axis=-1)


def _read_root(tree: Tree, num_actions: int) -> tuple[chex.Array, chex.Array]:
    """Returns `visits` and `qvalues` of `Evaluations`; actions without a slot have no visits."""
    visits = Node(tree, Tree.ROOT_INDEX, tree_index=-1).visits
    known, qvalues = latest_children(tree)
    qvalues = jnp.where(known > 0, qvalues, jnp.nan)
    return to_actions(tree, visits, num_actions), to_actions(tree, qvalues, num_actions, jnp.nan)


def mark(loss: float | None) -> str | None:
    """Returns the mark of a move that loses `loss` of its value; `None` below all thresholds."""
    if loss is None:
        return None
    # A difference of floats may be a little below a loss of exactly 0.1.
    return next((text for text, least in MARKS if round(loss, 6) >= least), None)


def centipawns(value: float) -> int:
    """Returns a score in hundredths of a pawn for a value from -1 to 1.

    It is 90 tan(1.5637541897 value), as in Leela Chess Zero, and at most 12,800.
    """
    bounded = min(1.0, max(-1.0, value))
    score = round(_SCALE * math.tan(_STEEPNESS * bounded))
    return max(-_LARGEST_SCORE, min(_LARGEST_SCORE, score))
