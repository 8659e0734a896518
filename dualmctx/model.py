"""A game and a network as the functions that a search calls; the only place of signs and masks."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.packing import drop_observation, pack_bits
from dualmctx.types import Embedding, Params, Policy, RecurrentFn, RefineFn, SearchFn


class Model(NamedTuple):
    """What a policy calls.

    Attributes:
      root_fn: `(params, state) -> mctx.RootFnOutput`, by the first head asked for.
      recurrent_fn: plays actions and evaluates by the same head.
      refine_fn: evaluates by the network's last head.
    """

    root_fn: Any
    recurrent_fn: RecurrentFn
    refine_fn: RefineFn


def mask_illegal(logits: chex.Array, legal_action_mask: chex.Array) -> chex.Array:
    """Returns `[B, A]` logits with the lowest finite number at illegal actions."""
    return jnp.where(legal_action_mask, logits, jnp.finfo(logits.dtype).min)


def edge_signs(before: Any, after: Any) -> tuple[chex.Array, chex.Array]:
    """Returns the reward and the discount of a step between `[B]` game states.

    The reward is the mover's. The discount is -1 where the player to move changes, +1 where it
    stays the same, and 0 where the game is over.
    """
    mover = before.current_player
    reward = jnp.take_along_axis(after.rewards, mover[:, None], axis=1)[:, 0]
    same = jnp.where(after.current_player == mover, 1.0, -1.0)
    is_over = after.terminated | after.truncated
    return reward, jnp.where(is_over, 0.0, same).astype(reward.dtype)


def make_model(
    env: Any,
    network: Any,
    *,
    first_head: int = -1,
    keep_activations: bool = True,
    activations_dtype: Any = None,
    compact_states: bool = False,
) -> Model:
    """Makes the functions that a policy calls from a game and a network.

    Embeddings hold the game state without its observation, which `env.step` makes anew, and the
    trunk's activations at the first head if there is a later one.

    Args:
      env: a game as `games.make` gives it.
      network: a `dualmctx.network.Network`.
      first_head: index of the head for `root_fn` and `recurrent_fn`.
      keep_activations: whether refining resumes from kept activations; else it runs the trunk
        anew, which needs less memory and gives the same result.
      activations_dtype: type in which activations are kept, by default the network's own;
        `bfloat16` halves them and changes what the later head says in the third digit.
      compact_states: whether nodes hold their states packed: bits for truth values, and as few as
        the numbers need that the game's `state_ranges` bounds. The search stays the same.

    Returns:
      The functions, pure and batched.

    Raises:
      ValueError: when `activations_dtype` holds no fractions, in one line.
    """
    kept_type = activations_dtype
    if kept_type is not None and not jnp.issubdtype(jnp.dtype(kept_type), jnp.floating):
        remedy = "a floating type, such as bfloat16"
        raise ValueError(f"activations_dtype is {kept_type}; it must be {remedy}")
    num_heads = len(network.head_depths)
    first = first_head % num_heads
    is_last = first == num_heads - 1
    packing = drop_observation()
    if compact_states:
        example = jax.eval_shape(lambda: env.init(jax.random.PRNGKey(0)))
        packing = pack_bits(example, getattr(env, "state_ranges", {}))

    def observe(state: Any) -> chex.Array:
        return jax.vmap(env.observe)(state)

    def evaluate(params: Params, state: Any) -> tuple[chex.Array, chex.Array, Embedding]:
        activations, output = network.apply(params, state.observation, first, method="begin")
        logits = mask_illegal(output.logits, state.legal_action_mask)
        value = jnp.where(state.terminated | state.truncated, 0.0, output.value)
        kept = None if is_last or not keep_activations else activations
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
        reward, discount = edge_signs(before, state)
        logits, value, embedding = evaluate(params, state)
        output = mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=value
        )
        return output, embedding

    def refine_fn(params: Params, rng_key: Any, embedding: Any) -> tuple[chex.Array, chex.Array]:
        del rng_key
        state = packing.unpack(embedding.state)
        if embedding.activations is None:
            observation = observe(state)
            _, output = network.apply(params, observation, num_heads - 1, method="begin")
        else:
            _, output = network.apply(
                params, embedding.activations, first, num_heads - 1, method="resume"
            )
        value = jnp.where(state.terminated | state.truncated, 0.0, output.value)
        return mask_illegal(output.logits, state.legal_action_mask), value

    return Model(root_fn, recurrent_fn, refine_fn)


def make_search_fn(
    env: Any,
    network: Any,
    policy: Policy,
    *,
    keep_activations: bool = True,
    activations_dtype: Any = None,
    compact_states: bool = False,
) -> SearchFn:
    """Binds a policy to a game and a network.

    Args:
      env: a game as `games.make` gives it.
      network: a `dualmctx.network.Network`.
      policy: a search variant.
      keep_activations: see `make_model`.
      activations_dtype: likewise.
      compact_states: likewise.

    Returns:
      `(params, rng_key, state) -> mctx.PolicyOutput` for a batch of game states; what `advance`
      made of the last move's trees may follow, for a policy with `kept_nodes`.
    """
    model = make_model(
        env,
        network,
        first_head=policy.first_head,
        keep_activations=keep_activations,
        activations_dtype=activations_dtype,
        compact_states=compact_states,
    )

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
            **kept,
        )

    return search
