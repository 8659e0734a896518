"""Pairs of games in which somebody plays on the host; the device searches for the other one."""

import functools
from typing import Any

import chex
import jax
import numpy as np

from dualmctx.matches.arena import Player, PlayerFn, choose_at, observe_at, with_memory
from dualmctx.matches.boards import (
    Boards,
    Record,
    Seat,
    find_seat,
    is_going_on,
    keys_at_seat,
    move,
    set_up,
    to_record,
)
from dualmctx.matches.players import Host
from dualmctx.types import Environment, Params

AnyPlayer = PlayerFn | Player | Host


def play_on_host(
    env: Environment,
    players: tuple[AnyPlayer, AnyPlayer],
    params: tuple[Params, Params],
    rng_keys: chex.PRNGKey,
    openings: chex.Array | np.ndarray,
    max_plies: int,
    starts: Any = None,
) -> Record:
    """Plays pairs of games, a move at a time; the same games as `make_games` plays.

    Args:
      env: a game as `games.make` gives it.
      players: of which any may be a `Host`.
      params: of each, see `make_games`.
      rng_keys: `[H]` keys, consumed.
      openings: `[H, D]`, see `make_games`.
      max_plies: likewise.
      starts: likewise; a `Host` is told the actions alone.

    Returns:
      The games.
    """
    boards = _set_up(env, rng_keys, openings, max_plies, starts)
    memories = [
        None if isinstance(player, Host) else with_memory(player).start(own, boards.state)
        for player, own in zip(players, params, strict=True)
    ]
    while np.any(_is_going_on(boards)):
        seats = tuple(_find_seat(boards, number) for number in range(2))
        actions = []
        for i, player in enumerate(players):
            action, memories[i] = _choose(player, seats[i], params[i], boards, memories[i])
            actions.append(action)
        for i, player in enumerate(players):
            memories[i] = _observe(player, seats[1 - i], memories[i], actions[1 - i])
        boards = _move(env, boards, seats, tuple(actions))
    return jax.device_get(to_record(boards))


def _choose(
    player: AnyPlayer, seat: Seat, params: Params, boards: Boards, memory: Any
) -> tuple[chex.Array | np.ndarray, Any]:
    """Lets a player choose; see `choose_at`."""
    if isinstance(player, Host):
        return _ask(player, boards, seat), None
    return _chooser(player)(seat, params=params, boards=boards, memory=memory)


def _observe(player: AnyPlayer, seat: Seat, memory: Any, action: chex.Array) -> Any:
    """Tells a player of the other one's actions; see `observe_at`."""
    if isinstance(player, Host):
        return None
    return _observer(player)(seat, memory=memory, action=action)


def _ask(player: Host, boards: Boards, seat: Seat) -> np.ndarray:
    """Returns `[H]` actions of a host player, 0 where it has no move to make."""
    keys = jax.random.key_data(_keys(seat, boards))
    found = jax.device_get((seat, boards.actions, boards.ply, keys))
    (board, is_active), actions, ply, keys = found
    chosen = np.zeros(len(board), np.int32)
    index = np.flatnonzero(is_active)
    histories = [actions[b, : ply[b]].tolist() for b in board[index]]
    # The first bit is left out for those who take signed numbers.
    seeds = [int(key[-1]) >> 1 for key in keys[index]]
    chosen[index] = player.choose(histories, seeds)
    return chosen


_set_up = jax.jit(set_up, static_argnums=(0, 3))
_is_going_on = jax.jit(is_going_on)
_find_seat = jax.jit(find_seat, static_argnums=1)
_keys = jax.jit(keys_at_seat)
_move = jax.jit(move, static_argnums=0)


@functools.lru_cache(maxsize=64)
def _chooser(player: PlayerFn | Player) -> Any:
    return jax.jit(functools.partial(choose_at, player=with_memory(player)))


@functools.lru_cache(maxsize=64)
def _observer(player: PlayerFn | Player) -> Any:
    return jax.jit(functools.partial(observe_at, player=with_memory(player)))
