"""Boards on which two players play pairs of games, and who moves where."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.search.arrays import tree_where
from dualmctx.search.keys import split_key
from dualmctx.types import Environment


class Boards(NamedTuple):
    """Pairs of games in progress, H of them: boards h and H + h are pair h.

    On its first board a pair's first player has the first side, that which moves first in the game,
    on its second board the second side.

    Attributes:
      state: `[2 H]` game states.
      rng_keys: `[2 H]` keys, of which each ply takes one.
      identity: `[2 H]` int32, the first player's in pgx's `current_player`.
      result: `[2 H]` of the first player, the sum of its rewards.
      actions: `[2 H, T]` int32, those of the opening too; -1 where none has been played.
      ply: `[2 H]` int32, the number of actions played.
      num_chosen: `[2 H, 2]` int32, how many of them either player chose.
      has_failed: `[2 H, 2]` bool, whether either player could not choose; then the game ends.
    """

    state: Any
    rng_keys: chex.PRNGKey
    identity: chex.Array
    result: chex.Array
    actions: chex.Array
    ply: chex.Array
    num_chosen: chex.Array
    has_failed: chex.Array


class Record(NamedTuple):
    """Games as they were played, `[2, H, ...]`: the first player on the first side, then second.

    Attributes:
      result: `[2, H]` of the first player: -1, 0 or 1. A player that could not choose has lost.
      actions: `[2, H, T]` int32, -1 after the last.
      is_over: `[2, H]` bool, false where a game was cut short, which counts as a draw unless a
        player could not choose.
      num_chosen: `[2, H, 2]` int32, how many actions each player chose.
      has_failed: `[2, H, 2]` bool, whether a player could not choose, which cut the game short.
    """

    result: chex.Array
    actions: chex.Array
    is_over: chex.Array
    num_chosen: chex.Array
    has_failed: chex.Array


class Seat(NamedTuple):
    """Where a player moves next, on one board of each pair at most.

    Attributes:
      board: `[H]` int32, from 0 to 2 H - 1.
      is_active: `[H]` bool, whether it has a move to make there.
    """

    board: chex.Array
    is_active: chex.Array


def set_up(
    env: Environment,
    rng_keys: chex.PRNGKey,
    openings: chex.Array,
    max_plies: int,
    starts: Any = None,
) -> Boards:
    """Sets up both boards of each pair.

    Args:
      env: a game as `games.make` gives it.
      rng_keys: `[H]` keys, consumed: all that is random in a pair comes from its own.
      openings: `[H, D]` int32 legal actions, -1 after the last.
      max_plies: T; longer games are cut short.
      starts: `[H]` game states in which the openings begin, player 0 on the first side, as
        `games.set_up` makes them; `None` for the start of the game.

    Returns:
      The boards after the openings.
    """
    init_keys, *game_keys = split_key(rng_keys, 3)
    start = jax.vmap(env.init)(init_keys) if starts is None else starts
    first = start.current_player if starts is None else jnp.zeros_like(start.current_player)

    def play(state: Any, action: chex.Array) -> tuple[Any, None]:
        after = jax.vmap(env.step)(state, jnp.maximum(action, 0))
        return tree_where(action >= 0, after, state), None

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


def is_going_on(boards: Boards) -> chex.Array:
    """Returns `[2 H]` bool, the boards on which somebody has to move."""
    is_over = boards.state.terminated | boards.state.truncated
    is_over |= jnp.any(boards.has_failed, axis=1)
    return ~is_over & (boards.ply < boards.actions.shape[1])


def find_seat(boards: Boards, number: int) -> Seat:
    """Finds where a player moves next.

    In each pair that is one board at most, so that a player chooses H actions, not 2 H of which
    half are the other's. Where players take turns one of them moves on each board; where somebody
    moves twice, one board waits.

    Args:
      boards: the games.
      number: of the player, 0 or 1.
    """
    is_first = boards.state.current_player == boards.identity
    has_turn = (is_first == (number == 0)) & is_going_on(boards)
    one, other = has_turn.reshape(2, -1)
    pair = jnp.arange(one.shape[0], dtype=jnp.int32)
    return Seat(jnp.where(one, pair, pair + one.shape[0]), one | other)


def at_seat(seat: Seat, arrays: Any) -> Any:
    """Takes `[H, ...]` of `[2 H, ...]` arrays."""
    return jax.tree.map(lambda x: x[seat.board], arrays)


def put_at_seat(seat: Seat, arrays: Any, new: Any) -> Any:
    """Puts `[H, ...]` back where the seat is active."""
    # What is not to be written is written outside.
    index = jnp.where(seat.is_active, seat.board, 2 * seat.board.shape[0])
    return jax.tree.map(lambda x, y: x.at[index].set(y.astype(x.dtype), mode="drop"), arrays, new)


def keys_at_seat(seat: Seat, boards: Boards) -> chex.PRNGKey:
    """Returns the `[H]` keys of the next plies there."""
    return jax.vmap(jax.random.fold_in)(boards.rng_keys[seat.board], boards.ply[seat.board])


def move(
    env: Environment, boards: Boards, seats: tuple[Seat, ...], actions: tuple[Any, ...]
) -> Boards:
    """Plays one `[H]` action of each player, where its seat is active; -1 if it cannot choose."""
    action = jnp.zeros_like(boards.ply)
    is_mover = jnp.zeros(boards.num_chosen.shape, bool)
    for player, (seat, chosen) in enumerate(zip(seats, actions, strict=True)):
        action = put_at_seat(seat, action, chosen)
        is_mover = is_mover.at[:, player].set(
            put_at_seat(seat, is_mover[:, player], seat.is_active)
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
        # Where no ply is left nothing is written.
        actions=boards.actions.at[row, boards.ply].set(played, mode="drop"),
        ply=boards.ply + is_moved,
        num_chosen=boards.num_chosen + is_mover,
        has_failed=boards.has_failed | has_failed,
    )


def to_record(boards: Boards) -> Record:
    """Returns what was played."""
    result = jnp.sign(boards.result).astype(jnp.int32)
    one_failed, other_failed = boards.has_failed[:, 0], boards.has_failed[:, 1]
    result = jnp.where(one_failed, -1, jnp.where(other_failed, 1, result))
    is_over = boards.state.terminated | boards.state.truncated
    parts = result, boards.actions, is_over, boards.num_chosen, boards.has_failed
    return Record(*(x.reshape(2, -1, *x.shape[1:]) for x in parts))
