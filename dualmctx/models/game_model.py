"""A game and a network as the functions that a search calls; the only place of signs and masks."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.checks import check_count
from dualmctx.models.packing import Packing, drop_observation, pack_bits
from dualmctx.models.rollouts import play_out
from dualmctx.types import (
    Embedding,
    Environment,
    Params,
    Policy,
    PolicyValueNetwork,
    RecurrentFn,
    RefineFn,
    RolloutFn,
    SearchFn,
)


class Model(NamedTuple):
    """What a policy calls.

    Attributes:
      root_fn: `(params, state) -> mctx.RootFnOutput`, by the first head asked for.
      recurrent_fn: plays actions and evaluates by the same head.
      refine_fn: evaluates by the second head asked for; where there are more, a tuple of such
        functions, one for each; `None` where there is none.
    """

    root_fn: Any
    recurrent_fn: RecurrentFn
    refine_fn: Any


def mask_illegal(logits: chex.Array, legal_action_mask: chex.Array) -> chex.Array:
    """Returns `[B, A]` logits with the lowest finite number at illegal actions."""
    return jnp.where(legal_action_mask, logits, jnp.finfo(logits.dtype).min)


def reward_and_discount(before: Any, after: Any) -> tuple[chex.Array, chex.Array]:
    """Returns the reward and the discount of a step between `[B]` game states.

    The reward is the mover's. The discount is -1 where the player to move changes, +1 where it
    stays the same, and 0 where the game is over.
    """
    mover = before.current_player
    reward = jnp.take_along_axis(after.rewards, mover[:, None], axis=1)[:, 0]
    same = jnp.where(after.current_player == mover, 1.0, -1.0)
    is_over = after.terminated | after.truncated
    return reward, jnp.where(is_over, 0.0, same).astype(reward.dtype)


def _packing(env: Environment, compact_states: bool) -> Packing:
    """Returns how nodes hold the game's states."""
    if not compact_states:
        return drop_observation()
    example = jax.eval_shape(lambda: env.init(jax.random.PRNGKey(0)))
    return pack_bits(example, getattr(env, "state_ranges", {}))


def make_model(
    env: Environment,
    network: PolicyValueNetwork,
    *,
    heads: tuple[int, ...] = (-1,),
    keep_activations: bool = True,
    activations_dtype: Any = None,
    compact_states: bool = False,
) -> Model:
    """Makes the functions that a policy calls from a game and a network.

    Embeddings hold the game state without its observation, which `env.step` makes anew, and the
    trunk's activations at the first head if a later one can go on from there.

    Args:
      env: a game as `games.make` gives it.
      network: a `dualmctx.models.network.Network`.
      heads: indices of the heads: the first for `root_fn` and `recurrent_fn`, each later one for a
        `refine_fn`.
      keep_activations: whether refining resumes from kept activations; else it runs the trunk
        anew, which needs less memory and gives the same result.
      activations_dtype: type in which activations are kept, by default the network's own;
        `bfloat16` halves them and changes what the later head says in the third digit.
      compact_states: whether nodes hold their states packed: bits for truth values, and as few as
        the numbers need that the game's `state_ranges` bounds. The search stays the same.

    Returns:
      The functions, pure and batched.

    Raises:
      ValueError: when `activations_dtype` holds no fractions, `heads` names none or one twice, or
        the network has too few, in one line.
    """
    kept_type = activations_dtype
    if kept_type is not None and not jnp.issubdtype(jnp.dtype(kept_type), jnp.floating):
        remedy = "a floating type, such as bfloat16"
        raise ValueError(f"activations_dtype is {kept_type}; it must be {remedy}")
    first, *later = _find_heads(network.head_depths, heads)
    packing = _packing(env, compact_states)

    def observe(state: Any) -> chex.Array:
        return jax.vmap(env.observe)(state)

    def evaluate(params: Params, state: Any) -> tuple[chex.Array, chex.Array, Embedding]:
        activations, output = network.apply(params, state.observation, first, method="begin")
        logits = mask_illegal(output.logits, state.legal_action_mask)
        value = jnp.where(state.terminated | state.truncated, 0.0, output.value)
        is_resumed = keep_activations and any(head > first for head in later)
        kept = activations if is_resumed else None
        if kept is not None and kept_type is not None:
            kept = kept.astype(kept_type)  # `resume` casts back.
        return logits, value, Embedding(state=packing.pack(state), activations=kept)

    def root_fn(params: Params, state: Any) -> mctx.RootFnOutput:
        logits, value, embedding = evaluate(params, state)
        return mctx.RootFnOutput(prior_logits=logits, value=value, embedding=embedding)

    def recurrent_fn(params: Params, rng_key: Any, action: Any, embedding: Any) -> tuple:
        del rng_key
        before = packing.unpack(embedding.state)
        state = jax.vmap(env.step)(before, action)
        reward, discount = reward_and_discount(before, state)
        logits, value, embedding = evaluate(params, state)
        output = mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=value
        )
        return output, embedding

    def refine_by(head: int) -> RefineFn:
        def refine_fn(params: Params, rng_key: Any, embedding: Any) -> tuple:
            del rng_key
            state, kept = packing.unpack(embedding.state), embedding.activations
            if kept is None or head < first:
                _, output = network.apply(params, observe(state), head, method="begin")
            else:
                _, output = network.apply(params, kept, first, head, method="resume")
            value = jnp.where(state.terminated | state.truncated, 0.0, output.value)
            return mask_illegal(output.logits, state.legal_action_mask), value

        return refine_fn

    refine_fns = tuple(refine_by(head) for head in later)
    if len(refine_fns) > 1:
        return Model(root_fn, recurrent_fn, refine_fns)
    return Model(root_fn, recurrent_fn, refine_fns[0] if refine_fns else None)


def _find_heads(head_depths: tuple[int, ...], heads: tuple[int, ...]) -> list[int]:
    """Returns the heads' places in the network, counted from 0."""
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
    """Makes the function that plays positions out to the end of the game.

    Args:
      env: a game as `games.make` gives it.
      network: a `Network`, whose first head plays both sides: moves are drawn from
        its softmax over legal actions. `None` draws them uniformly from these.
      max_length: see `dualmctx.models.rollouts.play_out`.
      compact_states: see `make_model`; as there.

    Returns:
      `(params, rng_key, embedding) -> [M]` outcomes, seen by the player to move; pure and batched.

    Raises:
      ValueError: when `max_length` is not at least 1, in one line.
    """
    check_count("max_length", max_length, 1, "for no limit")
    packing = _packing(env, compact_states)

    def logits_fn(params: Params, state: Any) -> chex.Array:
        if network is None:
            logits = jnp.zeros(state.legal_action_mask.shape)
        else:
            observation = jax.vmap(env.observe)(state)
            logits = network.apply(params, observation, 0, method="begin")[1].logits
        return mask_illegal(logits, state.legal_action_mask)

    def play_fn(state: Any, action: chex.Array) -> tuple[Any, chex.Array, chex.Array]:
        # Without the observation: it need not be carried from move to move.
        after = jax.vmap(env.step)(state, action).replace(observation=None)
        return after, *reward_and_discount(state, after)

    def rollout_fn(params: Params, rng_key: chex.PRNGKey, embedding: Any) -> chex.Array:
        state = packing.unpack(embedding.state)
        return play_out(
            params,
            rng_key,
            state,
            state.terminated | state.truncated,
            play_fn=play_fn,
            logits_fn=logits_fn,
            max_length=max_length,
        )

    return rollout_fn


def rollout_options(
    env: Environment, network: PolicyValueNetwork, policy: Policy, *, compact_states: bool = False
) -> dict[str, RolloutFn]:
    """Returns `rollout_fn` by name for a policy that mixes rollouts in, for others nothing."""
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
      env: a game as `games.make` gives it.
      network: a `dualmctx.models.network.Network`.
      policy: a search variant.
      keep_activations: see `make_model`.
      activations_dtype: likewise.
      compact_states: likewise.

    Returns:
      `(params, rng_key, state) -> mctx.PolicyOutput` for a batch of game states; what `get_subtree`
      made of the last move's trees may follow, for a policy with `reuse_capacity`.
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
        params: Params, rng_key: chex.PRNGKey, state: Any, search_tree: Any = None
    ) -> mctx.PolicyOutput:
        # Not every policy goes on from a tree.
        kept = {} if search_tree is None else {"search_tree": search_tree}
        return policy(
            params,
            rng_key,
            model.root_fn(params, state),
            model.recurrent_fn,
            model.refine_fn,
            invalid_actions=~state.legal_action_mask,
            **rollouts,
            **kept,
        )

    return search
