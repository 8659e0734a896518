"""Random games in which each move is checked against the contract, on the device."""

from __future__ import annotations

import functools
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.histories import select_rows
from games.solvers import random_player

# The tolerance of rewards and of their sum.
_ROUNDING = 1e-5
RULES = {
    "over_at_start": ("the game is over at its start", "let init return a game to be played"),
    "player": (
        "current_player is neither 0 nor 1",
        "number the players 0 and 1",
    ),
    "no_move": (
        "a game that is not over has no legal action",
        "end the game there, or add an action such as a pass",
    ),
    "observation": (
        "the observation has NaN or infinity",
        "give the network finite numbers",
    ),
    "range": (
        "a reward is not in [-1, 1]",
        "use 1 for a win, -1 for a loss and 0 otherwise, or scale the rewards",
    ),
    "early_reward": (
        "a reward comes before the last move of the game",
        "give the sum with the last move: metrics, evaluations and the page read the result there",
    ),
    "zero_sum": (
        "the two rewards do not add up to zero",
        "give the loser minus the reward of the winner; only zero-sum games are supported",
    ),
    "goes_on": (
        "a game that was over goes on after another step",
        "let step keep terminated (pgx.Env does)",
    ),
    "late_reward": (
        "a step after the end of the game gives a reward again",
        "rewards are those of the last move: return zeros if the game was over (pgx.Env does)",
    ),
    "nothing_changes": (
        "a legal action leaves the position and the player to move as they were",
        "remove it from legal_action_mask, or let it change the state",
    ),
    "illegal": (
        "an action that legal_action_mask forbids is played as if it were legal",
        "end the game with -1 for the player who moved, as pgx.Env does, or return the state "
        "unchanged",
    ),
}
"""For each rule: the fault of a game that breaks it, and the remedy."""


class Played(NamedTuple):
    """Random games.

    Attributes:
      first_bad: for each rule, `[B]` int32, the ply at which a game first broke it, or -1.
      plies: `[B]` int32, the number of moves of each game.
      is_over: `[B]` bool, whether the game ended within the limit.
      is_truncated: `[B]` bool.
      num_repeats: `[B]` int32, the number of moves after which the same player moved again.
      actions: `[T, B]` int32, the moves; -1 after the end.
      before: `[T, B, 2]` uint32, digests of each position before its move.
      after: `[T, B, 2]` uint32, digests of the outcome of the move.
    """

    first_bad: dict[str, Any]
    plies: Any
    is_over: Any
    is_truncated: Any
    num_repeats: Any
    actions: Any
    before: Any
    after: Any


def is_over(state: Any) -> jax.Array:
    """Returns whether games are over or were stopped."""
    return state.terminated | state.truncated


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def play(env: Any, rng_key: jax.Array, num_games: int, max_plies: int) -> Played:
    """Plays B random games of at most T plies, and one step after the end of each."""
    player = jax.vmap(random_player())
    step = jax.vmap(env.step)
    states = jax.vmap(env.init)(jax.random.split(rng_key, num_games))
    broken = {name: jnp.zeros(num_games, bool) for name in RULES} | {
        "over_at_start": is_over(states),
        **_check_position(states),
        "early_reward": (states.rewards != 0).any(-1),
    }
    zeros, moves = jnp.zeros(num_games, jnp.int32), jnp.full((max_plies, num_games), -1, jnp.int32)
    digests = jnp.zeros((max_plies, num_games, 2), jnp.uint32)
    first_bad = {name: jnp.where(bad, 0, -1) for name, bad in broken.items()}
    played = Played(first_bad, zeros, zeros, zeros, zeros, moves, digests, digests)

    def move(carry: Any) -> Any:
        ply, states, played = carry
        keys = jax.random.split(jax.random.fold_in(rng_key, ply), (2, num_games))
        actions = player(keys[0], states)
        running = ~is_over(states)
        # One step after the end, by action 0.
        after = step(states, jnp.where(running, actions, 0))
        forbidden = states.replace(legal_action_mask=~states.legal_action_mask)
        illegal = step(states, player(keys[1], forbidden))
        broken = _check_move(states, after, running) | {
            "illegal": _plays_illegal(states, illegal) & running
        }
        first = {
            name: jnp.where(broken[name] & (old < 0), ply + 1, old) if name in broken else old
            for name, old in played.first_bad.items()
        }
        repeats = running & (after.current_player == states.current_player) & ~is_over(after)
        played = played._replace(
            first_bad=first,
            plies=played.plies + running,
            num_repeats=played.num_repeats + repeats,
            actions=played.actions.at[ply].set(jnp.where(running, actions, -1)),
            before=played.before.at[ply].set(_digest(states.observation, states.legal_action_mask)),
            after=played.after.at[ply].set(_digest_outcome(states, after)),
        )
        return ply + 1, after, played

    def goes_on(carry: Any) -> jax.Array:
        ply, states, played = carry
        # Until all games are over and one more step was made.
        waits = is_over(states).all() & (ply > played.plies.max())
        return (ply < max_plies) & ~waits

    carry = (jnp.int32(0), states, played)
    _, states, played = jax.lax.while_loop(goes_on, move, carry)
    return played._replace(is_over=is_over(states), is_truncated=states.truncated)


def _check_position(states: Any) -> dict[str, jax.Array]:
    observation = states.observation.reshape(states.observation.shape[0], -1)
    return {
        "player": (states.current_player < 0) | (states.current_player > 1),
        "no_move": ~states.legal_action_mask.any(-1) & ~is_over(states),
        "observation": ~jnp.isfinite(observation.astype(jnp.float32)).all(-1),
    }


def _check_move(states: Any, after: Any, running: jax.Array) -> dict[str, jax.Array]:
    rewards = after.rewards
    # Comparisons with <= are false for NaN.
    broken = _check_position(after) | {
        "range": ~(jnp.abs(rewards) <= 1 + _ROUNDING).all(-1),
        "early_reward": (rewards != 0).any(-1) & ~is_over(after),
        "zero_sum": ~(jnp.abs(rewards.sum(-1)) <= _ROUNDING),
        "nothing_changes": _same(states, after) & ~is_over(after),
    }
    broken = {name: bad & running for name, bad in broken.items()}
    return broken | {
        "goes_on": ~running & ~is_over(after),
        "late_reward": ~running & (rewards != 0).any(-1),
    }


def _plays_illegal(states: Any, after: Any) -> jax.Array:
    """Returns whether a forbidden action was played as if it were legal."""
    has_forbidden = ~states.legal_action_mask.all(-1)
    mover = jnp.clip(states.current_player, 0, 1)
    own, other = (
        jnp.take_along_axis(after.rewards, player[:, None], axis=1)[:, 0]
        for player in (mover, 1 - mover)
    )
    # A reward that is NaN or does not add up to zero is another fault.
    loses = is_over(after) & ~(own >= other)
    return has_forbidden & ~loses & ~_same(states, after)


def _same(states: Any, after: Any) -> jax.Array:
    """Returns whether observation, legal actions and player to move are the same."""
    names = ("observation", "legal_action_mask", "current_player")
    pairs = ((getattr(states, name), getattr(after, name)) for name in names)
    equal = ((x == y).reshape(len(x), -1).all(-1) for x, y in pairs)
    return functools.reduce(operator.and_, equal)


def _digest_outcome(states: Any, after: Any) -> jax.Array:
    """Returns `[B, 2]` digests of the result of a move, from the view of the player who moved."""
    mover = jnp.clip(states.current_player, 0, 1)
    reward = jnp.take_along_axis(after.rewards, mover[:, None], axis=1)
    same = after.current_player == states.current_player
    # Observations after the end carry no information for a search.
    shown = select_rows(~is_over(after), after.observation, jnp.zeros_like(after.observation))
    mask = after.legal_action_mask & ~is_over(after)[:, None]
    return _digest(shown, mask, reward, same, is_over(after))


def _digest(*arrays: jax.Array) -> jax.Array:
    """Returns two sums of the bits of `[B, ...]` arrays, with random odd weights."""
    rows = [x.reshape(x.shape[0], -1).astype(jnp.float32) for x in arrays]
    bits = jax.lax.bitcast_convert_type(jnp.concatenate(rows, axis=1) + 0.0, jnp.uint32)
    # Equal numbers in different places must differ: mix before weighting.
    bits = (bits ^ (bits >> 15)) * np.uint32(0x2C1B3C6D)
    bits ^= bits >> 12
    draws = np.random.default_rng(0).integers(0, 2**32, (bits.shape[1], 2), np.uint32) | 1
    return (bits[:, :, None] * jnp.asarray(draws)).sum(axis=1, dtype=jnp.uint32)
