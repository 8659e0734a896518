"""Games of two policies in one batch: each has each side in half of the games."""

from typing import NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.matches.arena import Boards, make_games, set_up
from dualmctx.matches.movers import MoveFn
from dualmctx.matches.openings import play_randomly
from dualmctx.models.game_model import mask_illegal
from dualmctx.pipeline.parts import LogitsFn
from dualmctx.search.keys import sample_rows
from dualmctx.types import Environment, GameState, Params


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


class PlayMatchFn(Protocol):
    """Plays G games; see `make_self_match`."""

    def __call__(self, learner: Params, opponent: Params, rng_key: chex.PRNGKey) -> PlayedGames:
        """Plays G games with the parameters of two policies; consumes the key."""
        ...


def sample_moves(logits_fn: LogitsFn) -> MoveFn:
    """Returns a function that samples legal moves from a policy."""

    def choose(params: Params, rng_key: chex.PRNGKey, state: GameState) -> chex.Array:
        logits = mask_illegal(logits_fn(params, state.observation), state.legal_action_mask)
        action = sample_rows(lambda key, x: jax.random.categorical(key, x), rng_key, logits)
        return _checked(action, logits)

    return choose


def likeliest_moves(logits_fn: LogitsFn) -> MoveFn:
    """Returns a function that plays the likeliest legal move; ties go to the lowest action."""

    def choose(params: Params, rng_key: chex.PRNGKey, state: GameState) -> chex.Array:
        del rng_key
        logits = mask_illegal(logits_fn(params, state.observation), state.legal_action_mask)
        return _checked(jnp.argmax(logits, axis=-1), logits)

    return choose


def make_self_match(
    env: Environment,
    move_fn: MoveFn,
    *,
    num_games: int,
    max_plies: int,
    opening_plies: int = 0,
) -> PlayMatchFn:
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
      `(learner, opponent, rng_key) -> PlayedGames`, a pure function to be jitted.
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


def _checked(action: chex.Array, logits: chex.Array) -> chex.Array:
    """Returns `[B]` actions, -1 where the network's output is not finite."""
    return jnp.where(jnp.all(jnp.isfinite(logits), axis=-1), action, -1).astype(jnp.int32)
