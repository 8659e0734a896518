"""Binds a game and a network to a search. Only this module applies signs and masks."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import operator
from typing import Any, NamedTuple, cast

import chex
import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import check_count
from dualmctx.models.head import HeadOutput
from dualmctx.models.network import cast_trunk
from dualmctx.models.packing import Packing, drop_observation, pack_bits
from dualmctx.models.rollouts import play_out
from dualmctx.search.tree import Tree
from dualmctx.types import (
    Embedding,
    Environment,
    GameState,
    HasStateRanges,
    Params,
    Policy,
    PolicyValueNetwork,
    RecurrentFn,
    RefineFn,
    RolloutFn,
    RootFn,
    SearchFn,
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
    return reward, jnp.where(_is_over(after), 0.0, same).astype(reward.dtype)


def _is_over(state: GameState) -> Array:
    return state.terminated | state.truncated


def _packing(env: Environment, compact_states: bool) -> Packing:
    """Returns the form in which nodes store the states of a game."""
    if not compact_states:
        return drop_observation()
    example: Any = jax.eval_shape(lambda: env.init(jax.random.PRNGKey(0)))
    return pack_bits(example, env.state_ranges if isinstance(env, HasStateRanges) else {})


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
    return _packing(env, compact_states).unpack(packed)


def _masked(output: HeadOutput, state: GameState) -> tuple[Array, Array]:
    """Returns `[M, A]` logits with illegal actions masked; and `[M]` values, 0 for finished games.

    Shapes are checked while JAX traces, which costs nothing when the search runs.
    """
    mask = state.legal_action_mask
    chex.assert_shape(output.logits, mask.shape)
    chex.assert_shape([output.value, state.terminated, state.truncated], mask.shape[:1])
    return mask_illegal(output.logits, mask), jnp.where(_is_over(state), 0.0, output.value)


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
        third digit on. For a trunk in bfloat16 it is exact.
      compact_states: whether nodes store packed states: booleans as bits, and integer arrays with a
        range in the game's `state_ranges` in as few bits as the range needs. The search result is
        the same.

    Returns:
      The functions, pure and batched.

    Raises:
      ValueError: if `activations_dtype` is not a floating type, or if `heads` is empty, names a
        head twice, or names one that the network does not have.
    """
    stored_type = activations_dtype
    if stored_type is not None and not jnp.issubdtype(jnp.dtype(stored_type), jnp.floating):
        remedy = "a floating type, such as bfloat16"
        raise ValueError(f"activations_dtype is {stored_type}; it must be {remedy}")
    first, *later = _find_heads(network.head_depths, heads)
    is_resumed = keep_activations and any(head > first for head in later)
    packing = _packing(env, compact_states)

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
    if len(refine_fns) > 1:
        return Model(root_fn, recurrent_fn, refine_fns)
    return Model(root_fn, recurrent_fn, refine_fns[0] if refine_fns else None)


def _find_heads(head_depths: tuple[int, ...], heads: tuple[int, ...]) -> list[int]:
    """Returns the indices of heads, counted from 0."""
    number = len(head_depths)
    needed = max((len(set(heads)), *(head + 1 if head >= 0 else -head for head in heads)))
    if needed > number:
        depths = " ".join(map(str, head_depths))
        raise ValueError(
            f"head_depths is {depths}; it must name at least {needed} depths, one for each head"
            " that the search evaluates"
        )
    found = [head % number for head in heads]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"heads is {heads}; it must name one head or more, each once")
    return found


def make_rollout_fn(
    env: Environment,
    network: PolicyValueNetwork | None = None,
    *,
    max_length: int | None = None,
    compact_states: bool = False,
) -> RolloutFn:
    """Makes the function that plays positions to the end of the game.

    Args:
      env: a game, as `games.make` returns it.
      network: a `Network` whose first head plays both sides: moves are sampled from its softmax
        over legal actions. With `None` they are sampled uniformly from the legal actions.
      max_length: see `dualmctx.models.rollouts.play_out`.
      compact_states: the same value as for `make_model`.

    Returns:
      `(params, rng_key, embedding) -> [M]` outcomes, from the view of the player to move; pure and
      batched.

    Raises:
      ValueError: if `max_length` is not at least 1.
    """
    check_count("max_length", max_length, 1, "for no limit")
    packing = _packing(env, compact_states)

    def logits_fn(params: Params, state: GameState) -> Array:
        if network is None:
            logits = jnp.zeros(state.legal_action_mask.shape)
        else:
            observation = jax.vmap(env.observe)(state)
            logits = network.apply(params, observation, 0, method="begin")[1].logits
        return mask_illegal(logits, state.legal_action_mask)

    def play_fn(state: GameState, action: Array) -> tuple[GameState, Array, Array]:
        # Without the observation, which the loop does not need to carry.
        after = jax.vmap(env.step)(state, action).replace(observation=None)
        return after, *reward_and_discount(state, after)

    def rollout_fn(params: Params, rng_key: Array, embedding: Any) -> Array:
        state = packing.unpack(embedding.state)
        return play_out(
            params,
            rng_key,
            state,
            _is_over(state),
            play_fn=play_fn,
            logits_fn=logits_fn,
            max_length=max_length,
        )

    return rollout_fn


def rollout_options(
    env: Environment, network: PolicyValueNetwork, policy: Policy, *, compact_states: bool = False
) -> dict[str, RolloutFn]:
    """Returns the keyword argument `rollout_fn` for a policy with rollouts; empty for others."""
    rollouts = policy.traits.rollouts
    if rollouts is None:
        return {}
    return {
        "rollout_fn": make_rollout_fn(
            env,
            None if rollouts.player == "uniform" else network,
            max_length=rollouts.max_length,
            compact_states=compact_states,
        )
    }


def make_search_fn(
    env: Environment,
    network: PolicyValueNetwork,
    policy: Policy,
    *,
    keep_activations: bool = True,
    activations_dtype: Any = None,
    compact_states: bool = False,
) -> SearchFn:
    """Binds a policy to a game and a network.

    Args:
      env: a game, as `games.make` returns it.
      network: a `dualmctx.models.network.Network`.
      policy: a search variant.
      keep_activations: see `make_model`.
      activations_dtype: see `make_model`.
      compact_states: see `make_model`.

    Returns:
      `(params, rng_key, state) -> mctx.PolicyOutput` for a batch of game states. A policy with
      `reuse_capacity` accepts the output of `get_subtree` on the previous move's trees as a fourth
      argument.

    Raises:
      ValueError: see `make_model` and `make_rollout_fn`.
    """
    model = make_model(
        env,
        network,
        heads=policy.heads,
        keep_activations=keep_activations,
        activations_dtype=activations_dtype,
        compact_states=compact_states,
    )
    rollouts = rollout_options(env, network, policy, compact_states=compact_states)

    def search(
        params: Params, rng_key: Array, state: GameState, search_tree: Any = None
    ) -> mctx.PolicyOutput:
        params = cast_trunk(network, params)
        # Only policies with `reuse_capacity` take a tree.
        reused = {} if search_tree is None else {"search_tree": search_tree}
        return policy(
            params,
            rng_key,
            model.root_fn(params, state),
            model.recurrent_fn,
            model.refine_fn,
            invalid_actions=~state.legal_action_mask,
            **rollouts,
            **reused,
        )

    return search
