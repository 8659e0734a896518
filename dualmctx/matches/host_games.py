"""Pairs of games that the host plays one move at a time."""

import functools
from typing import Any

import chex
import jax
import numpy as np

from dualmctx.matches.arena import (
    Boards,
    Record,
    Seat,
    find_seat,
    gather_seat,
    is_in_progress,
    observe_at,
    play_moves,
    scatter_seat,
    seat_keys,
    set_up,
    to_record,
)
from dualmctx.matches.movers import MoveFn, Mover, as_mover, jit_choose
from dualmctx.matches.players import HostMover
from dualmctx.types import Environment, GameState, Params

AnyMover = MoveFn | Mover | HostMover


def play_on_host(
    env: Environment,
    movers: tuple[AnyMover, AnyMover],
    params: tuple[Params, Params],
    rng_keys: chex.PRNGKey,
    openings: chex.Array | np.ndarray,
    max_plies: int,
    starts: GameState | None = None,
) -> Record:
    """Plays pairs of games one move at a time; the games are the same as those of `make_games`.

    Each mover on the device is compiled by itself, and not with its opponent as in `make_games`,
    which describes the arguments. A `HostMover` receives only the actions, not `starts`.
    """
    boards = _set_up(env, rng_keys, openings, max_plies, starts)
    memories = [
        None if isinstance(mover, HostMover) else as_mover(mover).start(own, boards.state)
        for mover, own in zip(movers, params, strict=True)
    ]
    while np.any(_is_in_progress(boards)):
        seats = tuple(_find_seat(boards, number) for number in range(2))
        actions = []
        for i, mover in enumerate(movers):
            action, memories[i] = _choose(mover, seats[i], params[i], boards, memories[i])
            actions.append(action)
        for i, mover in enumerate(movers):
            memories[i] = _observe(mover, seats[1 - i], memories[i], actions[1 - i])
        boards = _play_moves(env, boards, seats, tuple(actions))
    return jax.device_get(to_record(boards))


def _choose(
    mover: AnyMover, seat: Seat, params: Params, boards: Boards, memory: Any
) -> tuple[chex.Array | np.ndarray, Any]:
    if isinstance(mover, HostMover):
        return _choose_on_host(mover, boards, seat), None
    state, own_memory = _gather_seat(seat, (boards.state, memory))
    keys = _seat_keys(seat, boards)
    action, own_memory = jit_choose(mover)(params, keys, state, own_memory)
    return action, _scatter_seat(seat, memory, own_memory)


def _observe(mover: AnyMover, seat: Seat, memory: Any, action: chex.Array) -> Any:
    if isinstance(mover, HostMover):
        return None
    return _jit_observe(mover)(seat, memory=memory, action=action)


def _choose_on_host(mover: HostMover, boards: Boards, seat: Seat) -> np.ndarray:
    """Returns `[H]` actions of a host mover, 0 where its seat is not active."""
    keys = jax.random.key_data(_seat_keys(seat, boards))
    fetched = jax.device_get((seat, boards.actions, boards.ply, keys))
    (board, is_active), actions, ply, keys = fetched
    chosen = np.zeros(len(board), np.int32)
    index = np.flatnonzero(is_active)
    histories = [actions[b, : ply[b]].tolist() for b in board[index]]
    # 31 bits fit into a signed 32-bit integer.
    seeds = [int(key[-1]) >> 1 for key in keys[index]]
    chosen[index] = mover.choose(histories, seeds)
    return chosen


_set_up = jax.jit(set_up, static_argnums=(0, 3))
_is_in_progress = jax.jit(is_in_progress)
_find_seat = jax.jit(find_seat, static_argnums=1)
_seat_keys = jax.jit(seat_keys)
_gather_seat = jax.jit(gather_seat)
_scatter_seat = jax.jit(scatter_seat)
_play_moves = jax.jit(play_moves, static_argnums=0)


@functools.lru_cache(maxsize=64)
def _jit_observe(mover: MoveFn | Mover) -> Any:
    return jax.jit(functools.partial(observe_at, mover=as_mover(mover)))
