"""Pairs of games that the host plays one move at a time."""

import functools
from collections.abc import Sequence
from typing import Any

import chex
import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.matches import arena
from dualmctx.matches.arena import Boards, Record, Seat
from dualmctx.matches.openings import split_opening
from dualmctx.matches.players import ChooseFn, HostMover, MoveFn, Mover, as_mover, jit_choose
from dualmctx.types import Environment, Failure, GameState, Params

AnyMover = MoveFn | Mover | HostMover
Failures = dict[tuple[int, int], Failure]
"""The failures of players on the host, by the row and the column of the game in its `Record`."""


def play_on_host(
    env: Environment,
    movers: tuple[AnyMover, AnyMover],
    params: tuple[Params, Params],
    rng_keys: chex.PRNGKey,
    openings: chex.Array | np.ndarray,
    max_plies: int,
    starts: GameState | None = None,
    fens: Sequence[str | None] = (),
    wanted: np.ndarray | None = None,
) -> tuple[Record, Failures]:
    """Plays pairs of games one move at a time; the games are the same as those of `make_games`.

    Each mover on the device is compiled by itself, and not with its opponent as in `make_games`. A
    player on the host that fails or makes an illegal move loses that game.

    Args:
      env: a game of `games.make`.
      movers: the movers of the two players.
      params: the parameters of each player.
      rng_keys: `[H]` keys, consumed.
      openings: `[H, D]` legal actions, padded with -1.
      max_plies: T, the maximum length.
      starts: the `[H]` initial states.
      fens: the H FENs of `starts`, for players on the host.
      wanted: `[H]` bool, the pairs to play; by default all. The games of the others are marked as
        failed and have no meaning.

    Returns:
      The record, and the failures of players on the host.
    """
    boards = _set_up(env, rng_keys, openings, max_plies, starts)
    if wanted is not None:
        # A game with a failure is over.
        boards = boards._replace(has_failed=boards.has_failed | ~np.tile(wanted, 2)[:, None])
    failures: Failures = {}
    memories: list[Any] = [None, None]
    for i, mover in enumerate(movers):
        if isinstance(mover, HostMover):
            mover.begin()
        else:
            memories[i] = as_mover(mover).start(params[i], boards.state)
    while np.any(_is_in_progress(boards)):
        seats = tuple(_find_seat(boards, number) for number in range(2))
        actions: list[Any] = [None, None]
        for i, mover in enumerate(movers):
            if isinstance(mover, HostMover):
                actions[i] = _choose_on_host(env, mover, boards, seats[i], fens, failures)
            else:
                actions[i], memories[i] = _choose(mover, seats[i], params[i], boards, memories[i])
        for i, mover in enumerate(movers):
            if not isinstance(mover, HostMover):
                memories[i] = _observe(mover)(
                    seats[1 - i], memory=memories[i], action=actions[1 - i]
                )
        boards = _play_moves(env, boards, seats, tuple(actions))
    return jax.device_get(arena.to_record(boards)), failures


def choose_legal(
    env: Environment,
    choose: ChooseFn,
    histories: list[list[Any]],
    seeds: list[int],
    legal: np.ndarray,
) -> list[int | Failure]:
    """Chooses a move after each of S histories; an illegal move becomes a failure.

    Args:
      env: a game of `games.make`.
      choose: chooses the moves.
      histories: the actions so far, perhaps with a FEN before them.
      seeds: a seed for each.
      legal: `[S, A]` bool, the legal actions.
    """
    answers = choose(histories, seeds) if histories else []
    return [
        answer
        if isinstance(answer, Failure) or (0 <= answer < len(mask) and mask[answer])
        else _illegal_move(env, history, answer)
        for history, answer, mask in zip(histories, answers, legal, strict=True)
    ]


def _illegal_move(env: Environment, history: Sequence[Any], action: int) -> Failure:
    fen, actions = split_opening(tuple(history))
    try:
        start = fen and games.read_fen(env, fen)
        name = games.format_moves(env, start, [*actions, action])[-1]
    except UserError:
        name = f"action {action}"
    message = f"the engine's move {len(actions) + 1}, {name}, is not legal"
    return Failure("illegal move", message)


def _choose(
    mover: MoveFn | Mover, seat: Seat, params: Params, boards: Boards, memory: Any
) -> tuple[chex.Array, Any]:
    state, own_memory = _gather_seat(seat, (boards.state, memory))
    keys = _seat_keys(seat, boards)
    action, own_memory = jit_choose(mover)(params, keys, state, own_memory)
    return action, _scatter_seat(seat, memory, own_memory)


def _choose_on_host(
    env: Environment,
    mover: HostMover,
    boards: Boards,
    seat: Seat,
    fens: Sequence[str | None],
    failures: Failures,
) -> np.ndarray:
    """Returns `[H]` actions of a host mover, 0 where its seat is not active, -1 for a failure."""
    keys = jax.random.key_data(_seat_keys(seat, boards))
    legal = _gather_seat(seat, boards.state.legal_action_mask)
    fetched = jax.device_get((seat, boards.actions, boards.ply, keys, legal))
    (board, is_active), actions, ply, keys, legal = fetched
    chosen = np.zeros(len(board), np.int32)
    index = np.flatnonzero(is_active).tolist()
    histories = [
        [*filter(None, fens[pair : pair + 1]), *actions[b, : ply[b]].tolist()]
        for pair, b in zip(index, board[index], strict=True)
    ]
    # 31 bits fit into a signed 32-bit integer.
    seeds = [int(key[-1]) >> 1 for key in keys[index]]
    answers = choose_legal(env, mover.choose, histories, seeds, legal[index])
    for pair, answer in zip(index, answers, strict=True):
        if isinstance(answer, Failure):
            failures[divmod(int(board[pair]), len(board))] = answer
        chosen[pair] = -1 if isinstance(answer, Failure) else answer
    return chosen


_set_up = jax.jit(arena.set_up, static_argnums=(0, 3))
_is_in_progress = jax.jit(arena.is_in_progress)
_find_seat = jax.jit(arena.find_seat, static_argnums=1)
_seat_keys = jax.jit(arena.seat_keys)
_gather_seat = jax.jit(arena.gather_seat)
_scatter_seat = jax.jit(arena.scatter_seat)
_play_moves = jax.jit(arena.play_moves, static_argnums=0)


@functools.lru_cache(maxsize=64)
def _observe(mover: MoveFn | Mover) -> Any:
    return jax.jit(functools.partial(arena.observe_at, mover=as_mover(mover)))
