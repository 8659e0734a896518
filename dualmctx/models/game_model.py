"""Binds a game and a network to the functions of a search.

The signs of values and the masks of illegal moves are defined only here.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import operator
from typing import Any, NamedTuple, cast

import chex
import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import check, check_flag, describe, is_whole
from dualmctx.errors import UserError
from dualmctx.models.network import HeadOutput
from dualmctx.models.packing import find_packing
from dualmctx.search.tree import Tree
from dualmctx.types import (
    Embedding,
    Environment,
    GameState,
    Params,
    PolicyValueNetwork,
    RecurrentFn,
    RefineFn,
    RootFn,
)


class Model(NamedTuple):
    """The functions that a policy calls.

    Attributes:
      root_fn: evaluates states by the first of the chosen heads.
      recurrent_fn: plays actions and evaluates the resulting states by the same head.
      refine_fn: evaluates embeddings by the second of the chosen heads. With more than two heads, a
        tuple of one function per later head; with one head, `None`.
    """

    root_fn: RootFn
    recurrent_fn: RecurrentFn
    refine_fn: Any


def mask_illegal(logits: Array, legal_action_mask: Array) -> Array:
    """Returns `[B, A]` logits with the lowest finite number at illegal actions."""
    # Not -inf, because the difference of two infinities is NaN. The type of `finfo` is incomplete.
    lowest = cast(Any, jnp.finfo(logits.dtype).min)
    return jnp.where(legal_action_mask, logits, lowest)


def reward_and_discount(before: GameState, after: GameState) -> tuple[Array, Array]:
    """Returns the `[B]` rewards and discounts of a step between `[B]` game states.

    The reward is from the view of the player who moved. The discount is -1 if the player to move
    changes, 1 if it stays the same, and 0 if the game is over.
    """
    mover = before.current_player
    reward = jnp.take_along_axis(after.rewards, mover[:, None], axis=1)[:, 0]
    same = jnp.where(after.current_player == mover, 1.0, -1.0)
    return reward, jnp.where(is_over(after), 0.0, same).astype(reward.dtype)


def is_over(state: GameState) -> Array:
    """Returns whether games are over, a bool per game."""
    return state.terminated | state.truncated


def node_states(env: Environment, tree: Tree, *, compact_states: bool = False) -> Any:
    """Returns the game states in the nodes of a search's trees, without observations.

    Args:
      env: the game.
      tree: trees of a search by `make_search_fn`.
      compact_states: the same value as for `make_search_fn`.

    Returns:
      `[N, ...]` states of the first element of the batch; undefined for slots without a node.
    """
    packed = jax.tree.map(operator.itemgetter(0), tree.embeddings.state)
    return find_packing(env, compact_states).unpack(packed)


def _masked(output: HeadOutput, state: GameState) -> tuple[Array, Array]:
    """Returns `[M, A]` masked logits, and `[M]` values, which are 0 for finished games."""
    mask = state.legal_action_mask
    if output.logits.shape != mask.shape:
        raise UserError(
            f"the network's logits have the shape {list(output.logits.shape)}; for {mask.shape[0]} "
            f"positions and {mask.shape[1]} actions it must be {list(mask.shape)}"
        )
    chex.assert_shape([output.value, state.terminated, state.truncated], mask.shape[:1])
    return mask_illegal(output.logits, mask), jnp.where(is_over(state), 0.0, output.value)


def make_model(
    env: Environment,
    network: PolicyValueNetwork,
    *,
    heads: tuple[int, ...] = (-1,),
    keep_activations: bool = True,
    activations_dtype: Any = None,
    compact_states: bool = False,
) -> Model:
    """Makes the functions that a policy calls, from a game and a network.

    Embeddings hold the game state without its observation, which `env.step` computes again. They
    also hold the trunk's activations at the first head, if a later head can resume from them.

    Args:
      env: a game, as `games.make` returns it.
      network: a `dualmctx.models.network.Network`.
      heads: indices of heads: the first for `root_fn` and `recurrent_fn`, each later one for a
        `refine_fn`.
      keep_activations: whether nodes store activations. If not, a `refine_fn` runs the whole trunk
        again, which takes less memory and gives the same result.
      activations_dtype: the type of stored activations, by default the network's own. `bfloat16`
        halves the memory of float32 activations and changes the output of the later head from the
        third digit on. For a trunk in bfloat16 it is exact. Without effect where nodes store no
        activations, as with one head.
      compact_states: whether nodes store packed states: booleans as bits, and integer arrays with a
        range in the game's `state_ranges` in as few bits as the range needs. The search result is
        the same.

    Returns:
      The functions, pure and batched.

    Raises:
      ValueError: if an option has a wrong type, or if `heads` is empty, names a head twice, or
        names one that the network does not have.
    """
    check_flag("keep_activations", keep_activations)
    check_flag("compact_states", compact_states)
    stored_type = activations_dtype
    remedy = "a floating type, such as bfloat16"
    check(_is_floating(stored_type), "activations_dtype", stored_type, remedy)
    first, *later = _find_heads(network.head_depths, heads)
    is_resumed = keep_activations and any(head > first for head in later)
    packing = find_packing(env, compact_states)

    def evaluate(params: Params, state: GameState) -> tuple[Array, Array, Embedding]:
        activations, output = network.apply(params, state.observation, first, method="begin")
        stored = activations if is_resumed else None
        if stored is not None and stored_type is not None:
            stored = stored.astype(stored_type)  # `resume` converts back.
        return *_masked(output, state), Embedding(packing.pack(state), stored)

    def root_fn(params: Params, state: GameState) -> mctx.RootFnOutput:
        logits, value, embedding = evaluate(params, state)
        return mctx.RootFnOutput(prior_logits=logits, value=value, embedding=embedding)

    def recurrent_fn(
        params: Params, rng_key: Any, action: Array, embedding: Any
    ) -> tuple[mctx.RecurrentFnOutput, Embedding]:
        del rng_key
        before = packing.unpack(embedding.state)
        chex.assert_shape([action, before.current_player], before.terminated.shape)
        state = jax.vmap(env.step)(before, action)
        reward, discount = reward_and_discount(before, state)
        logits, value, embedding = evaluate(params, state)
        output = mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=value
        )
        return output, embedding

    def refine_by(head: int) -> RefineFn:
        def refine_fn(params: Params, rng_key: Any, embedding: Any) -> tuple[Array, Array]:
            del rng_key
            state, stored = packing.unpack(embedding.state), embedding.activations
            if stored is None or head < first:
                observation = jax.vmap(env.observe)(state)
                _, output = network.apply(params, observation, head, method="begin")
            else:
                _, output = network.apply(params, stored, first, head, method="resume")
            return _masked(output, state)

        return refine_fn

    refine_fns = tuple(refine_by(head) for head in later)
    single = refine_fns[0] if refine_fns else None
    return Model(root_fn, recurrent_fn, refine_fns if len(refine_fns) > 1 else single)


def _is_floating(dtype: Any) -> bool:
    """Returns whether an argument is a floating type, or `None` for the default."""
    try:
        return dtype is None or jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
    except TypeError:  # It is no type.
        return False


def _find_heads(head_depths: tuple[int, ...], heads: tuple[int, ...]) -> list[int]:
    """Returns the indices of heads, counted from 0."""
    are_indices = isinstance(heads, list | tuple) and all(map(is_whole, heads))  # pyright: ignore[reportUnnecessaryIsInstance]
    if not are_indices or not heads:
        raise UserError(f"heads is {describe(heads)}; it must name one head or more, each once")
    number = len(head_depths)
    needed = max((len(set(heads)), *(head + 1 if head >= 0 else -head for head in heads)))
    if needed > number:
        depths = " ".join(map(str, head_depths))
        raise UserError(
            f"head_depths is {depths}; it must name at least {needed} depths, one for each head"
            " that the search evaluates"
        )
    found = [head % number for head in heads]
    if len(set(found)) < len(found):
        raise UserError(f"heads is {heads}; it must name one head or more, each once")
    return found
