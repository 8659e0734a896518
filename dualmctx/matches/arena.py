"""The arena: batches of games of two players, in pairs with the sides exchanged."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.checks import check_even
from dualmctx.matches.players import MoveFn, Mover, as_mover
from dualmctx.search.arrays import tree_where
from dualmctx.search.keys import split_key
from dualmctx.types import Environment, GameState, Params
from games.histories import step_legal

# No registered game is this long.
MAX_PLIES = 1024


class Boards(NamedTuple):
    """H pairs of games in progress; boards h and H + h belong to pair h.

    The first side is the one that moves first in the game. The first player of a pair has the first
    side on board h and the second side on board H + h.

    Attributes:
      state: `[2 H]` game states.
      rng_keys: `[2 H]` keys; the key of each ply is folded from them.
      identity: `[2 H]` int32, the first player in pgx's `current_player`.
      result: `[2 H]` sum of the rewards of the first player.
      actions: `[2 H, T]` int32, with the opening, padded with -1.
      ply: `[2 H]` int32, the number of actions.
      num_chosen: `[2 H, 2]` int32, the number of actions chosen by each player.
      has_failed: `[2 H, 2]` bool, whether a player failed to choose an action, which ends the game.
    """

    state: GameState
    rng_keys: chex.PRNGKey
    identity: chex.Array
    result: chex.Array
    actions: chex.Array
    ply: chex.Array
    num_chosen: chex.Array
    has_failed: chex.Array


class Record(NamedTuple):
    """Finished games, `[2, H, ...]`: first those with the first player on the first side.

    Attributes:
      result: `[2, H]` -1, 0 or 1 for the first player. A player that failed to choose loses.
      actions: `[2, H, T]` int32, padded with -1.
      is_over: `[2, H]` bool, false if the game was cut short. Such a game counts as a draw unless
        a player failed to choose.
      num_chosen: `[2, H, 2]` int32, the number of actions chosen by each player.
      has_failed: `[2, H, 2]` bool, whether a player failed to choose, which cut the game short.
    """

    result: chex.Array
    actions: chex.Array
    is_over: chex.Array
    num_chosen: chex.Array
    has_failed: chex.Array


class Seat(NamedTuple):
    """The board of each pair at which a player moves next.

    Attributes:
      board: `[H]` int32, from 0 to 2 H - 1.
      is_active: `[H]` bool, whether the player is to move on that board.
    """

    board: chex.Array
    is_active: chex.Array


def set_up(
    env: Environment,
    rng_keys: chex.PRNGKey,
    openings: chex.Array,
    max_plies: int,
    starts: GameState | None = None,
) -> Boards:
    """Sets up both boards of each pair and plays the openings.

    Args:
      env: a game of `games.make`.
      rng_keys: `[H]` keys, consumed; all randomness of a pair derives from its key.
      openings: `[H, D]` int32 legal actions, padded with -1.
      max_plies: T, the maximum length; longer games are cut short.
      starts: `[H]` game states in which the openings begin, with player 0 on the first side, as
        returned by `games.set_up`; `None` for the initial state of the game.

    Returns:
      The boards after the openings.
    """
    init_keys, *game_keys = split_key(rng_keys, 3)
    start = jax.vmap(env.init)(init_keys) if starts is None else starts
    first = start.current_player if starts is None else jnp.zeros_like(start.current_player)

    def play(state: Any, action: chex.Array) -> tuple[Any, chex.Array]:
        return step_legal(env, state, action, action >= 0)

    num_pairs, num_plies = openings.shape
    state = jax.lax.scan(play, start, openings.T)[0]
    actions = jnp.full((2 * num_pairs, max_plies), -1, jnp.int32)
    return Boards(
        state=jax.tree.map(lambda x: jnp.concatenate([x, x]), state),
        rng_keys=jnp.concatenate(game_keys),
        identity=jnp.concatenate([first, 1 - first]),
        result=jnp.zeros(2 * num_pairs),
        actions=actions.at[:, :num_plies].set(jnp.tile(openings, (2, 1))),
        ply=jnp.tile(jnp.sum(openings >= 0, axis=1, dtype=jnp.int32), 2),
        num_chosen=jnp.zeros((2 * num_pairs, 2), jnp.int32),
        has_failed=jnp.zeros((2 * num_pairs, 2), bool),
    )


def is_in_progress(boards: Boards) -> chex.Array:
    """Returns `[2 H]` bool, whether the game on a board is not over."""
    is_over = boards.state.terminated | boards.state.truncated
    is_over |= jnp.any(boards.has_failed, axis=1)
    return ~is_over & (boards.ply < boards.actions.shape[1])


def find_seat(boards: Boards, number: int) -> Seat:
    """Finds the boards at which a player, 0 or 1, moves next: at most one of each pair.

    A player thus evaluates H states instead of 2 H; if it moves twice in a row, one board waits.
    """
    is_first = boards.state.current_player == boards.identity
    has_turn = (is_first == (number == 0)) & is_in_progress(boards)
    one, other = has_turn.reshape(2, -1)
    pair = jnp.arange(one.shape[0], dtype=jnp.int32)
    return Seat(jnp.where(one, pair, pair + one.shape[0]), one | other)


def gather_seat(seat: Seat, arrays: Any) -> Any:
    """Gathers the `[H, ...]` rows at a seat from `[2 H, ...]` arrays."""
    return jax.tree.map(lambda x: x[seat.board], arrays)


def scatter_seat(seat: Seat, arrays: Any, new: Any) -> Any:
    """Scatters `[H, ...]` rows into `[2 H, ...]` arrays where the seat is active."""
    # Rows of inactive seats get an index out of bounds, so they are dropped.
    index = jnp.where(seat.is_active, seat.board, 2 * seat.board.shape[0])
    return jax.tree.map(lambda x, y: x.at[index].set(y.astype(x.dtype), mode="drop"), arrays, new)


def seat_keys(seat: Seat, boards: Boards) -> chex.PRNGKey:
    """Returns the `[H]` keys of the next plies at a seat."""
    return jax.vmap(jax.random.fold_in)(boards.rng_keys[seat.board], boards.ply[seat.board])


def play_moves(
    env: Environment, boards: Boards, seats: tuple[Seat, ...], actions: tuple[Any, ...]
) -> Boards:
    """Plays the `[H]` actions of each player where its seat is active; -1 marks a failure."""
    action = jnp.zeros_like(boards.ply)
    is_mover = jnp.zeros(boards.num_chosen.shape, bool)
    for player, (seat, chosen) in enumerate(zip(seats, actions, strict=True)):
        action = scatter_seat(seat, action, chosen)
        is_mover = is_mover.at[:, player].set(
            scatter_seat(seat, is_mover[:, player], seat.is_active)
        )
    has_failed = is_mover & (action < 0)[:, None]
    is_mover &= ~has_failed
    is_moved = jnp.any(is_mover, axis=1)
    action = jnp.maximum(action, 0)
    state = tree_where(is_moved, jax.vmap(env.step)(boards.state, action), boards.state)
    reward = jnp.take_along_axis(state.rewards, boards.identity[:, None], axis=1)[:, 0]
    row = jnp.arange(action.shape[0])
    played = jnp.where(is_moved, action, -1)
    return boards._replace(
        state=state,
        result=boards.result + jnp.where(is_moved, reward, 0),
        # A game of maximum length has no column left, so its update is dropped.
        actions=boards.actions.at[row, boards.ply].set(played, mode="drop"),
        ply=boards.ply + is_moved,
        num_chosen=boards.num_chosen + is_mover,
        has_failed=boards.has_failed | has_failed,
    )


def to_record(boards: Boards) -> Record:
    """Converts boards to a record of the games."""
    result = jnp.sign(boards.result).astype(jnp.int32)
    one_failed, other_failed = boards.has_failed[:, 0], boards.has_failed[:, 1]
    result = jnp.where(one_failed, -1, jnp.where(other_failed, 1, result))
    is_over = boards.state.terminated | boards.state.truncated
    parts = result, boards.actions, is_over, boards.num_chosen, boards.has_failed
    return Record(*(x.reshape(2, -1, *x.shape[1:]) for x in parts))


class Score(NamedTuple):
    """Numbers of games by result of the first player; `[2]` each: moving first, moving second."""

    wins: chex.Array
    draws: chex.Array
    losses: chex.Array


def make_games(
    env: Environment,
    movers: tuple[MoveFn | Mover, MoveFn | Mover],
    *,
    max_plies: int = MAX_PLIES,
) -> Callable[..., Record]:
    """Returns a function that plays pairs of games in one batch, each pair with its own key.

    A game does not depend on the other pairs or on its position in the batch.

    Args:
      env: a game of `games.make`.
      movers: the movers of the two players.
      max_plies: T, the maximum length, with the opening; a longer game is cut short and is a draw.

    Returns:
      `(params, rng_keys, openings, starts=None) -> Record`, a pure function to be jitted. It takes
      the parameters of each player; `[H]` keys, which are consumed; `[H, D]` int32 legal actions
      with which both games of a pair begin, padded with -1; and the `[H]` states where they begin.
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
    """Chooses `[H]` moves of a player; returns them and its updated `[2 H]` memory."""
    state, own_memory = gather_seat(seat, (boards.state, memory))
    action, own_memory = mover.choose(params, seat_keys(seat, boards), state, own_memory)
    return action, scatter_seat(seat, memory, own_memory)


def observe_at(seat: Seat, mover: Mover, memory: Any, action: chex.Array) -> Any:
    """Passes `[H]` actions of the opponent to a player; returns its updated `[2 H]` memory."""
    return scatter_seat(seat, memory, mover.observe(gather_seat(seat, memory), action))


def make_match(
    env: Environment, movers: tuple[MoveFn | Mover, MoveFn | Mover], num_games: int
) -> Callable[[Params, chex.PRNGKey], Score]:
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
    check_even("num_games", num_games)
    play, num_pairs = make_games(env, movers), num_games // 2

    def match(params: Params, rng_key: chex.PRNGKey) -> Score:
        rng_keys = jax.random.split(rng_key, num_pairs)
        openings = jnp.zeros((num_pairs, 0), jnp.int32)
        result = play((params, params), rng_keys, openings).result
        return Score(*(jnp.sum(result == x, axis=1) for x in (1, 0, -1)))

    return match
