"""Plays batches of recorded games on the device, and reads every position on the way."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.matches.openings import set_up_fens
from dualmctx.types import Environment, GameState
from games.histories import pad_histories, power_of_two, select_rows, step_legal

# Largest number of games that are played at once, and largest size of what is read off them.
_GAMES_AT_ONCE, _GROUP_BYTES = 256, 2**27
# Games are padded to a power of two of plies, at least this one, so that few programs compile.
_MIN_PLIES = 16
# Games are padded to this number if there are no more of them.
_FEW_GAMES = 16
ReadFn = Callable[[GameState, chex.Array], Any]
"""`(states, actions) -> arrays`: reads `[S, ...]` arrays off `[S]` states before their actions."""


class Replay(NamedTuple):
    """`[S]` games that have been played.

    Attributes:
      seen: the arrays of the `ReadFn` before each ply, `[D, S, ...]`; without meaning after the
        last legal move.
      is_first: `[D, S]` bool, whether the first side is to move.
      result: `[S]` float32, the result of the first side.
      is_over: `[S]` bool, whether the game is over and has a result.
      first_bad: `[S]` int32, the first ply that is not legal; -1 if there is none.
    """

    seen: Any
    is_first: chex.Array
    result: chex.Array
    is_over: chex.Array
    first_bad: chex.Array


def replay_games(
    env: Environment,
    read: ReadFn,
    moves: Sequence[Any],
    fens: Sequence[str | None],
    size: int = _GAMES_AT_ONCE,
) -> Replay:
    """Plays games on the device.

    Args:
      env: a game of `games.make`.
      read: reads each position. Programs are compiled for each function, so pass the same one.
      moves: the actions of at most `size` games.
      fens: the FEN in which each of them begins; `None` for the initial position.
      size: number of games to which the batch is padded. Each size compiles programs of its own.

    Returns:
      The games, with arrays on the host; S is the number of games.

    Raises:
      ValueError: if a FEN is not a position of the game.
    """
    number = len(moves)
    # Padded, because each new number of games would compile.
    padded = [*fens, *[None] * (size - number)]
    starts = set_up_fens(env, [(fen,) if fen else () for fen in padded]) if any(fens) else None
    has_fen = np.array([fen is not None for fen in padded])
    rows = pad_histories(moves, size, power_of_two(max(_MIN_PLIES, *map(len, moves))))
    found = jax.device_get(_play(env, read, rows, starts, has_fen))
    by_ply = jax.tree.map(lambda x: x[:, :number], found[:2])
    return Replay(*by_ply, *(x[:number] for x in found[2:]))


class Group(NamedTuple):
    """Games that are played at once: their indices, and the number to which they are padded."""

    games: np.ndarray
    size: int


def by_length(lengths: Sequence[int], bytes_per_position: int = 0) -> Iterator[Group]:
    """Splits games into groups, the shortest games first, because a group waits for its longest.

    Args:
      lengths: the number of moves of each game.
      bytes_per_position: size of the numbers that are read off a position. A group reads at most
        `_GROUP_BYTES`, unless a single game reads more.
    """
    order = np.argsort(np.asarray(lengths, int), kind="stable")
    start = 0
    while start < len(order):
        size = _GAMES_AT_ONCE if len(order) - start > _FEW_GAMES else _FEW_GAMES
        while size > 1:
            longest = power_of_two(max(_MIN_PLIES, lengths[order[start : start + size][-1]]))
            if size * bytes_per_position * longest <= _GROUP_BYTES:
                break
            size //= 2
        yield Group(order[start : start + size], size)
        start += size


@functools.partial(jax.jit, static_argnums=(0, 1))
def _play(
    env: Environment, read: ReadFn, moves: chex.Array, starts: Any, has_fen: chex.Array
) -> Replay:
    keys = jax.random.split(jax.random.PRNGKey(0), len(moves))
    states = jax.vmap(env.init)(keys)
    first = states.current_player
    if starts is not None:
        # Player 0 has the first side in positions of `set_up`.
        states = select_rows(has_fen, starts, states)
        first = jnp.where(has_fen, 0, first)

    def play(carry: tuple, action: chex.Array) -> tuple:
        ply, states, result, first_bad = carry
        seen = read(states, jnp.maximum(action, 0)), states.current_player == first
        is_asked = (action >= 0) & (first_bad < 0)
        states, is_played = step_legal(env, states, action, is_asked)
        reward = jnp.take_along_axis(states.rewards, first[:, None], axis=1)[:, 0]
        result = result + jnp.where(is_played, reward, 0)
        return (ply + 1, states, result, jnp.where(is_asked & ~is_played, ply, first_bad)), seen

    zeros = jnp.zeros(len(moves), jnp.float32)
    carry = (jnp.int32(0), states, zeros, jnp.full(len(moves), -1, jnp.int32))
    (_, states, result, first_bad), (seen, is_first) = jax.lax.scan(play, carry, moves.T)
    return Replay(seen, is_first, result, states.terminated & ~states.truncated, first_bad)
