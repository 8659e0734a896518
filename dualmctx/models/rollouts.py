"""Rollouts: games that a fast policy plays to the end, on the device, to evaluate a position.

All games of a batch run in one loop, which ends with the longest game; moves after the end of a
game have no effect. Each game has its own random key, so its result does not depend on the others.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.checks import check_count
from dualmctx.models.game_model import is_over, mask_illegal, reward_and_discount
from dualmctx.models.packing import find_packing
from dualmctx.search.keys import element_keys
from dualmctx.types import Environment, GameState, Params, Policy, PolicyValueNetwork, RolloutFn

PlayFn = Callable[[GameState, Array], tuple[GameState, Array, Array]]
"""Plays `[M]` actions; returns the states after them, and their `[M]` rewards and discounts.

The results for finished games are ignored.
"""
LogitsFn = Callable[[Params, GameState], Array]
"""Returns `[M, A]` logits, masked at illegal actions; moves are sampled from their softmax."""
# State, sign of the next reward, outcome so far, ply.
_Carry = tuple[GameState, Array, Array, Array]


def play_out(
    params: Params,
    rng_key: Array,
    state: GameState,
    is_over: Array,
    *,
    play_fn: PlayFn,
    logits_fn: LogitsFn,
    max_length: int | None = None,
) -> Array:
    """Plays `[M]` games to their end; returns their `[M]` outcomes for the player to move.

    The outcome is
        z = r_0 + γ_0 (r_1 + γ_1 (r_2 + …))
    where r_t is the reward of move t, from the view of the player who moved, and γ_t its discount:
    -1 if the player to move changes, +1 if it stays the same, 0 at the end, as for an edge of the
    tree.

    Args:
      params: passed on to `logits_fn`.
      rng_key: one key, or `[M]` keys; consumed. The samples of game i depend on i alone.
      state: `[M, ...]` the positions from which the games are played.
      is_over: `[M]` bool, true for games that are over at `state`. Their outcome is 0, because the
        result of the game is the reward of the edge into that position.
      play_fn: plays a move.
      logits_fn: the policy of both players.
      max_length: the number of moves after which a game is stopped, at least 1; `None` plays to the
        end. The rest of a stopped game counts as a draw.

    Source: Silver et al. 2016 (AlphaGo), Methods, "Search algorithm": rollouts run to the end of
    the game, and the moves of both players are sampled from the rollout policy.
    """
    keys = element_keys(rng_key, is_over.shape[0])

    def sample(rng_key: Array, ply: Array, logits: Array) -> Array:
        return jax.random.categorical(jax.random.fold_in(rng_key, ply), logits)

    def goes_on(carry: _Carry) -> Array:
        _, sign, _, ply = carry
        is_playing = jnp.any(sign != 0)
        return is_playing if max_length is None else is_playing & (ply < max_length)

    def body(carry: _Carry) -> _Carry:
        state, sign, outcome, ply = carry
        action = jax.vmap(sample, (0, None, 0))(keys, ply, logits_fn(params, state))
        state, reward, discount = play_fn(state, action.astype(jnp.int32))
        return state, sign * discount, outcome + sign * reward, ply + 1

    # The product of the discounts so far: the sign of the next reward from the view of the first
    # player to move, 0 after the end.
    sign = jnp.where(is_over, 0, 1).astype(jnp.float32)
    carry: _Carry = (state, sign, jnp.zeros_like(sign), jnp.int32(0))
    return jax.lax.while_loop(goes_on, body, carry)[2]


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
      max_length: see `play_out`.
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
    player = None if rollouts.player == "uniform" else network
    rollout_fn = make_rollout_fn(
        env, player, max_length=rollouts.max_length, compact_states=compact_states
    )
    return {"rollout_fn": rollout_fn}
