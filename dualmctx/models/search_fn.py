"""Makes the functions that search and that play rollouts."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

from typing import Any

import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import check_count
from dualmctx.errors import UserError
from dualmctx.models.game_model import (
    find_packing,
    is_over,
    make_model,
    mask_illegal,
    reward_and_discount,
)
from dualmctx.models.network import cast_trunk
from dualmctx.models.rollouts import play_out
from dualmctx.models.search_checks import (
    check_batch,
    check_parts,
    explained_params,
)
from dualmctx.search.keys import check_key
from dualmctx.types import (
    Environment,
    GameState,
    Params,
    Policy,
    PolicyValueNetwork,
    RolloutFn,
    SearchFn,
)


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
    packing = find_packing(env, compact_states)

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
            is_over(state),
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
      argument. It raises a ValueError if the parameters, the key or the states do not fit.

    Raises:
      ValueError: if an argument is not a game, a network or a policy; see `make_model` and
        `make_rollout_fn`.
    """
    check_parts(env, network, policy)
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
        check_key(rng_key, check_batch(env, state))
        if search_tree is not None and policy.traits.reuse_capacity == 0:
            remedy = "leave it out, or give a policy with a reuse_capacity above 0"
            raise UserError(f"search_tree is given, but the policy reuses no tree; {remedy}")
        reused = {} if search_tree is None else {"search_tree": search_tree}
        with explained_params(params):
            params = cast_trunk(network, params)
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
