"""The arena: plays batches of games of two players, in pairs with the sides exchanged."""

from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from dualmctx.errors import UserError
from dualmctx.matches.boards import (
    Boards,
    Record,
    Seat,
    find_seat,
    gather_seat,
    is_in_progress,
    play_moves,
    scatter_seat,
    seat_keys,
    set_up,
    to_record,
)
from dualmctx.matches.movers import MoveFn, Mover, as_mover
from dualmctx.types import Environment, GameState, Params

# No registered game is this long.
MAX_PLIES = 1024


class Score(NamedTuple):
    """Numbers of games by result of the first player; `[2]` each: moving first, moving second."""

    wins: chex.Array
    draws: chex.Array
    losses: chex.Array


class PlayGames(Protocol):
    """Plays pairs of games; see `make_games`."""

    def __call__(
        self,
        params: tuple[Params, Params],
        rng_keys: chex.PRNGKey,
        openings: chex.Array,
        starts: GameState | None = None,
    ) -> Record:
        """Plays all games; consumes the keys."""
        ...


class MatchFn(Protocol):
    """Plays a match; see `make_match`."""

    def __call__(self, params: Params, rng_key: chex.PRNGKey) -> Score:
        """Plays all games; consumes the key."""
        ...


def make_games(
    env: Environment,
    movers: tuple[MoveFn | Mover, MoveFn | Mover],
    *,
    max_plies: int = MAX_PLIES,
) -> PlayGames:
    """Returns a function that plays pairs of games in one batch, each pair with its own key.

    A game does not depend on the other pairs or on its position in the batch. The batch runs until
    the longest game is over.

    Args:
      env: a game of `games.make`.
      movers: the movers of the two players.
      max_plies: T, the maximum length, including the opening; a longer game is cut short and
        counts as a draw.

    Returns:
      `(params, rng_keys, openings, starts=None) -> Record`, a pure function to be jitted. It takes
      the parameters of each player; `[H]` keys, which are consumed; `[H, D]` legal actions with
      which both games of a pair begin, padded with -1; and the `[H]` initial states (see
      `boards.set_up`).
    """
    first, second = map(as_mover, movers)

    def play(
        params: tuple[Params, Params],
        rng_keys: chex.PRNGKey,
        openings: chex.Array,
        starts: GameState | None = None,
    ) -> Record:
        boards = set_up(env, rng_keys, openings, max_plies, starts)

        def play_turn(carry: tuple) -> tuple:
            boards, memory, other_memory = carry
            seats = find_seat(boards, 0), find_seat(boards, 1)
            action, memory = choose_at(seats[0], first, params[0], boards, memory)
            reply, other_memory = choose_at(seats[1], second, params[1], boards, other_memory)
            memory = observe_at(seats[1], first, memory, reply)
            other_memory = observe_at(seats[0], second, other_memory, action)
            return play_moves(env, boards, seats, (action, reply)), memory, other_memory

        memories = first.start(params[0], boards.state), second.start(params[1], boards.state)
        carry = (boards, *memories)
        return to_record(
            jax.lax.while_loop(lambda c: jnp.any(is_in_progress(c[0])), play_turn, carry)[0]
        )

    return play


def choose_at(
    seat: Seat, mover: Mover, params: Params, boards: Boards, memory: Any
) -> tuple[chex.Array, Any]:
    """Chooses the moves of a player; returns `[H]` actions and its updated `[2 H]` memory."""
    state, own_memory = gather_seat(seat, (boards.state, memory))
    action, own_memory = mover.choose(params, seat_keys(seat, boards), state, own_memory)
    return action, scatter_seat(seat, memory, own_memory)


def observe_at(seat: Seat, mover: Mover, memory: Any, action: chex.Array) -> Any:
    """Passes `[H]` actions of the opponent to a player; returns its updated `[2 H]` memory."""
    return scatter_seat(seat, memory, mover.observe(gather_seat(seat, memory), action))


def make_match(
    env: Environment, movers: tuple[MoveFn | Mover, MoveFn | Mover], num_games: int
) -> MatchFn:
    """Returns a function that plays a match from the initial state, all games in one batch.

    The first player moves first in half of the games. The identity of each player in pgx's
    `current_player` is sampled for each pair of games.

    Args:
      env: a game of `games.make`.
      movers: the movers of the two players; both receive the same `params`.
      num_games: an even number, at least 2.

    Returns:
      `(params, rng_key) -> Score`, a pure function to be jitted; it consumes the key.

    Raises:
      ValueError: if the number of games is odd or less than 2.
    """
    if num_games < 2 or num_games % 2:
        raise UserError(f"num_games is {num_games}; it must be even and at least 2")
    play, num_pairs = make_games(env, movers), num_games // 2

    def match(params: Params, rng_key: chex.PRNGKey) -> Score:
        rng_keys = jax.random.split(rng_key, num_pairs)
        openings = jnp.zeros((num_pairs, 0), jnp.int32)
        result = play((params, params), rng_keys, openings).result
        return Score(*(jnp.sum(result == x, axis=1) for x in (1, 0, -1)))

    return match
