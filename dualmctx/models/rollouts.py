"""Rollouts: games played out on the device by a fast policy, whose outcomes value where they began.

All games of a batch play in one loop, which ends with the longest of them; what is played after the
end of a game counts nothing. Each has a key of its own, so its neighbours change nothing.
"""

from typing import Any, Protocol

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.keys import element_keys
from dualmctx.types import Params


class PlayFn(Protocol):
    """Plays one move of `[M]` games; what it makes of games that are over is not read."""

    def __call__(self, state: Any, action: chex.Array) -> tuple[Any, chex.Array, chex.Array]:
        """Returns the states after `[M]` actions, and their rewards and discounts, `[M]` each."""
        ...


class LogitsFn(Protocol):
    """Says how `[M]` games are played: moves are drawn from the softmax of what it returns."""

    def __call__(self, params: Params, state: Any) -> chex.Array:
        """Returns `[M, A]` logits, masked where an action is illegal."""
        ...


def play_out(
    params: Params,
    rng_key: chex.PRNGKey,
    state: Any,
    is_over: chex.Array,
    *,
    play_fn: PlayFn,
    logits_fn: LogitsFn,
    max_length: int | None = None,
) -> chex.Array:
    """Plays games to their end and returns their outcomes.

    With r_t the reward of move t, seen by its mover, and γ_t its discount, as those of an edge of
    the tree (-1 where the player to move changes, +1 where it stays, 0 at the end):
        z = r_0 + γ_0 (r_1 + γ_1 (r_2 + …))

    Args:
      params: passed on to `logits_fn`.
      rng_key: consumed; the i-th game draws from a key that depends on i alone.
      state: `[M, ...]` where the games begin.
      is_over: `[M]` bool, games that are over from the start: their outcome is 0, as the result of
        the game is the reward of the edge that led there.
      play_fn: plays a move.
      logits_fn: the policy that plays both sides.
      max_length: moves after which a game is left as it is, at least 1; `None` plays to the end.
        What would come after counts as 0, that is, as a draw.

    Returns:
      `[M]` outcomes z, seen by the player to move at `state`.

    Source: Silver et al. 2016 (AlphaGo), Methods, "Search algorithm": rollouts run to the end of
    the game, both sides' moves drawn from the rollout policy.
    """
    keys = element_keys(rng_key, is_over.shape[0])

    def draw(rng_key: chex.PRNGKey, ply: chex.Array, logits: chex.Array) -> chex.Array:
        return jax.random.categorical(jax.random.fold_in(rng_key, ply), logits)

    def goes_on(carry: tuple) -> chex.Array:
        _, sign, _, ply = carry
        is_playing = jnp.any(sign != 0)
        return is_playing if max_length is None else is_playing & (ply < max_length)

    def body(carry: tuple) -> tuple:
        state, sign, outcome, ply = carry
        action = jax.vmap(draw, (0, None, 0))(keys, ply, logits_fn(params, state))
        state, reward, discount = play_fn(state, action.astype(jnp.int32))
        return state, sign * discount, outcome + sign * reward, ply + 1

    # The product of the discounts so far: whose view the next reward is seen in; 0 after the end.
    sign = jnp.where(is_over, 0, 1).astype(jnp.float32)
    carry = (state, sign, jnp.zeros_like(sign), jnp.int32(0))
    return jax.lax.while_loop(goes_on, body, carry)[2]
