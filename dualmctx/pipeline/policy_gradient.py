"""Games of a policy against its earlier versions, and the policy gradient of these games."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.matches.arena import Boards, make_games, set_up
from dualmctx.matches.openings import play_randomly
from dualmctx.matches.players import MoveFn
from dualmctx.models.game_model import mask_illegal
from dualmctx.pipeline.parts import LogitsFn, ValueFn
from dualmctx.types import Environment, GameState, Params
from games.histories import step_legal


class Pool(NamedTuple):
    """Parameters of policies, stacked on a leading axis.

    Attributes:
      params: `[P, ...]` parameters. The first entry is the policy with which the pool was made.
      num_added: int32, the number of policies added so far, including the first one.
    """

    params: Params
    num_added: chex.Array


def make_pool(params: Params, size: int) -> Pool:
    """Makes a pool of P = `size` entries that holds one policy."""
    stacked = jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype).at[0].set(x), params)
    return Pool(stacked, jnp.int32(1))


def count_policies(pool: Pool) -> chex.Array:
    """Returns the number of policies in the pool, int32, from 1 to P."""
    return jnp.minimum(pool.num_added, _size(pool))


def add_policy(pool: Pool, params: Params, is_due: chex.Array | bool = True) -> Pool:
    """Adds a policy to the pool if it is due.

    A full pool replaces its oldest policy, but never the first one, so that the learner keeps
    playing against the policy from which it started. A pool of size 1 never changes.

    Source: Silver et al. 2016, Methods, "Policy network: reinforcement learning". Their pool keeps
    all policies.
    """
    size = _size(pool)
    is_due = jnp.logical_and(is_due, size > 1)
    slot = 1 + (pool.num_added - 1) % max(size - 1, 1)
    # An index out of bounds drops the update.
    slot = jnp.where(is_due, slot, size)
    stacked = jax.tree.map(lambda x, new: x.at[slot].set(new, mode="drop"), pool.params, params)
    return Pool(stacked, pool.num_added + is_due)


def draw_policy(pool: Pool, rng_key: chex.PRNGKey) -> tuple[Params, chex.Array]:
    """Draws a policy uniformly from the pool; returns it and its index. Consumes the key."""
    index = jax.random.randint(rng_key, (), 0, count_policies(pool))
    return jax.tree.map(lambda x: x[index], pool.params), index


def first_policy(pool: Pool) -> Params:
    """Returns the parameters of the policy with which the pool was made."""
    return jax.tree.map(lambda x: x[0], pool.params)


def _size(pool: Pool) -> int:
    return jax.tree.leaves(pool.params)[0].shape[0]


class PlayedGames(NamedTuple):
    """G finished games of a learner against an opponent.

    Attributes:
      start: the G games after their openings. `start.identity` is the identity of the learner in
        pgx's `current_player`.
      actions: `[G, T]` int32, the actions of both players including the opening, padded with -1.
      result: `[G]` int32, the result of the learner: -1, 0 or 1. A game without a result after T
        plies, and a game that its environment truncates, is a draw.
      is_over: `[G]` bool, whether the game ended before the limit of T plies.
    """

    start: Boards
    actions: chex.Array
    result: chex.Array
    is_over: chex.Array


def make_self_match(
    env: Environment,
    move_fn: MoveFn,
    *,
    num_games: int,
    max_plies: int,
    opening_plies: int = 0,
) -> Callable[[Params, Params, chex.PRNGKey], PlayedGames]:
    """Returns a function that plays games between two sets of parameters.

    The learner has the first side in exactly half of the games. Games g and G/2 + g begin with the
    same opening and are otherwise independent.

    Args:
      env: a game of `games.make`.
      move_fn: chooses the moves of both players.
      num_games: G, an even number, at least 2.
      max_plies: T, the maximum length of a game, including the opening.
      opening_plies: each pair of games begins with 0 to this many uniformly random plies. A random
        opening that ends the game is replaced by the empty opening.

    Returns:
      `(learner, opponent, rng_key) -> games`, to be jitted: plays G games of two policies, given
      their parameters; consumes the key.
    """
    play = make_games(env, (move_fn, move_fn), max_plies=max_plies)
    num_pairs = num_games // 2

    def match(learner: Params, opponent: Params, rng_key: chex.PRNGKey) -> PlayedGames:
        opening_key, games_key = jax.random.split(rng_key)
        openings = _draw_openings(env, jax.random.split(opening_key, num_pairs), opening_plies)
        rng_keys = jax.random.split(games_key, num_pairs)
        record = play((learner, opponent), rng_keys, openings)
        result, actions, is_over = (
            x.reshape(num_games, *x.shape[2:])
            for x in (record.result, record.actions, record.is_over)
        )
        start = set_up(env, rng_keys, openings, openings.shape[1])
        return PlayedGames(start, actions, result, is_over)

    return match


def _draw_openings(env: Environment, rng_keys: chex.PRNGKey, plies: int) -> chex.Array:
    """Returns `[H, D]` random openings after which no game is over, padded with -1; D = `plies`."""
    if not plies:
        return jnp.zeros((rng_keys.shape[0], 0), jnp.int32)
    actions, state = play_randomly(env, rng_keys, np.arange(plies + 1))
    is_over = state.terminated | state.truncated
    return jnp.where(is_over[:, None], -1, actions)


# Positions in one evaluation of the networks, which bounds the memory; at least one per game. On a
# CPU, the gradient of 128 to 256 positions takes half of the time per position that 1,024 take.
_CHUNK = 256


class _Decisions(NamedTuple):
    """`[M]` positions in which the learner moved; `is_valid` is false where a game was over."""

    observation: chex.Array
    legal_action_mask: chex.Array
    action: chex.Array
    outcome: chex.Array
    is_valid: chex.Array


class Gradients(NamedTuple):
    """Gradients of the losses of a batch of games, and means over the learner's positions.

    Attributes:
      policy: gradient of -(1/G) Σ_i Σ_t (z_i - b(s_t)) log p(a_t|s_t), for descent.
      value: gradient of the mean of (z - b(s))², for descent; `()` without a baseline.
      entropy: mean entropy of the policy, in nats.
      value_loss: mean of (z - b(s))²; of z² without a baseline.
      num_moves: number of the learner's moves.
    """

    policy: Params
    value: Params
    entropy: chex.Array
    value_loss: chex.Array
    num_moves: chex.Array


class _Walk(NamedTuple):
    """Recorded games while they are played again: `[G]` states, and `[G]` plies played."""

    state: GameState
    ply: chex.Array


def make_gradient(
    env: Environment, logits_fn: LogitsFn, value_fn: ValueFn | None, *, chunk: int = _CHUNK
) -> Callable[[Params, Params, PlayedGames], Gradients]:
    """Returns a function that computes the policy gradient of finished games.

    The estimate is (1/G) Σ_i Σ_t ∇ log p(a_t|s_t) (z_i - b(s_t)). The inner sum is over the moves
    that the learner chose: moves of the opponent and of the opening do not count. z_i is the result
    of game i for the learner. A game without a result is a draw, z = 0, so the gradient is that of
    the expected result of the game with its limit of plies.

    The baseline b(s) depends on the position alone. It does not change the expected gradient, and
    reduces its variance as far as it predicts z.

    The games are played again from their records, and the positions are evaluated in chunks, so
    that the memory does not depend on the length of the games.

    Args:
      env: the game.
      logits_fn: the policy.
      value_fn: the baseline; `None` for b = 0.
      chunk: number of positions in one evaluation; at least one position of each game.

    Returns:
      `(policy, value, games) -> gradients`, to be jitted: takes the parameters of the learner that
      played, and of the baseline, `()` without one.

    Source: Silver et al. 2016, Methods, "Policy network: reinforcement learning".
    """

    def losses(policy: Params, value: Params, batch: _Decisions) -> tuple[chex.Array, Any]:
        logits = mask_illegal(logits_fn(policy, batch.observation), batch.legal_action_mask)
        log_probs = jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(log_probs, batch.action[:, None], axis=1)[:, 0]
        baseline = value_fn(value, batch.observation) if value_fn else jnp.zeros_like(chosen)
        error = jnp.where(batch.is_valid, batch.outcome - baseline, 0)
        advantage = jax.lax.stop_gradient(error)
        entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)
        sums = (jnp.sum(batch.is_valid * entropy), jnp.sum(error**2), jnp.sum(batch.is_valid))
        return jnp.sum(error**2) - jnp.sum(advantage * chosen), sums

    def gradient(policy: Params, value: Params, games: PlayedGames) -> Gradients:
        num_games = games.result.shape[0]
        num_steps = max(1, chunk // num_games)

        def add_chunk(carry: tuple[_Walk, Any]) -> tuple[_Walk, Any]:
            walk, totals = carry
            walk, steps = jax.lax.scan(
                lambda walk, _: _next_decisions(env, games, walk), walk, length=num_steps
            )
            batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), steps)
            found = jax.grad(losses, argnums=(0, 1), has_aux=True)(policy, value, batch)
            return walk, jax.tree.map(jnp.add, totals, found)

        zeros = jax.tree.map(jnp.zeros_like, (policy, value))
        totals = zeros, (jnp.float32(0), jnp.float32(0), jnp.int32(0))
        walk = _skip_opponent(env, games, _Walk(games.start.state, games.start.ply))
        _, totals = jax.lax.while_loop(
            lambda carry: jnp.any(_is_in_progress(games, carry[0])), add_chunk, (walk, totals)
        )
        (policy_sum, value_sum), (entropy, value_loss, num_moves) = totals
        number = jnp.maximum(num_moves, 1)
        return Gradients(
            policy=jax.tree.map(lambda x: x / num_games, policy_sum),
            value=jax.tree.map(lambda x: x / number, value_sum),
            entropy=entropy / number,
            value_loss=value_loss / number,
            num_moves=num_moves,
        )

    return gradient


def _next_decisions(env: Environment, games: PlayedGames, walk: _Walk) -> tuple[_Walk, _Decisions]:
    """Returns the `[G]` positions of a walk at the learner's turn, and the walk at its next one."""
    is_valid = _is_in_progress(games, walk)
    decisions = _Decisions(
        observation=walk.state.observation,
        legal_action_mask=walk.state.legal_action_mask,
        action=jnp.maximum(_recorded_action(games, walk), 0),
        outcome=games.result.astype(jnp.float32),
        is_valid=is_valid,
    )
    return _skip_opponent(env, games, _advance(env, games, walk, is_valid)), decisions


def _skip_opponent(env: Environment, games: PlayedGames, walk: _Walk) -> _Walk:
    """Plays recorded moves until the learner is to move, or the record ends, in each game."""

    def waits(walk: _Walk) -> chex.Array:
        is_learner = walk.state.current_player == games.start.identity
        return _is_in_progress(games, walk) & ~is_learner

    return jax.lax.while_loop(
        lambda walk: jnp.any(waits(walk)),
        lambda walk: _advance(env, games, walk, waits(walk)),
        walk,
    )


def _advance(env: Environment, games: PlayedGames, walk: _Walk, is_moved: chex.Array) -> _Walk:
    """Plays the next recorded move of the games in a `[G]` mask."""
    state, _ = step_legal(env, walk.state, _recorded_action(games, walk), is_moved)
    return _Walk(state, walk.ply + is_moved)


def _recorded_action(games: PlayedGames, walk: _Walk) -> chex.Array:
    """Returns the `[G]` next recorded actions, -1 at the end of a record."""
    column = jnp.minimum(walk.ply, games.actions.shape[1] - 1)
    action = jnp.take_along_axis(games.actions, column[:, None], axis=1)[:, 0]
    return jnp.where(walk.ply < games.actions.shape[1], action, -1)


def _is_in_progress(games: PlayedGames, walk: _Walk) -> chex.Array:
    return _recorded_action(games, walk) >= 0
