"""Rebuilds the positions of a data set by playing its games on the device."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import chex
import jax
import numpy as np

from dualmctx.datasets.replay import by_length, replay_games
from dualmctx.datasets.shards import Shard
from dualmctx.errors import UserError
from dualmctx.types import Environment, GameState


class Positions(NamedTuple):
    """`[P]` positions on the host, with their observations.

    Attributes:
      observation: `[P, ...]`.
      legal_action_mask: `[P, A]` bool.
      move: `[P]` int32, the move played.
      value: `[P]` float32, the result for the player to move; NaN if it is unknown.
      counts: `[P]` int32, the number of equal positions that a position stands for.
      game_keys: `[P]` uint64, the key of each position's game.
      plies: `[P]` int32, the number of moves before the position.
      keys: `[P]` uint64, equal for positions that are equal up to a symmetry.
    """

    observation: np.ndarray
    legal_action_mask: np.ndarray
    move: np.ndarray
    value: np.ndarray
    counts: np.ndarray
    game_keys: np.ndarray
    plies: np.ndarray
    keys: np.ndarray


def rebuild_positions(
    env: Environment,
    shards: Iterable[tuple[Shard, np.ndarray]],
    buffer_bytes: int,
    folder: Path,
) -> Iterator[Positions]:
    """Yields the positions of as many games at once as the buffer holds.

    Args:
      env: the game.
      shards: shards, each with the rows of its games in the order in which they are rebuilt.
      buffer_bytes: size of the observations in the buffer; at least one group of games is held.
      folder: the folder of the data set, for messages.

    Raises:
      UserError: if a move or a FEN is not legal.
    """
    room = max(1, buffer_bytes // _entry_bytes(env))
    pending: list[Positions] = []
    for shard, order in shards:
        sizes = np.bincount(shard.games, minlength=len(shard.lengths))
        for group in _groups(order, sizes, room):
            try:
                pending += _rebuild(env, shard, group)
            except UserError as error:
                raise UserError(f"{folder} cannot be loaded: {error}") from error
            if sum(len(x.plies) for x in pending) >= room:
                yield concatenate(pending)
                pending = []
    if pending:
        yield concatenate(pending)


def _groups(order: np.ndarray, sizes: np.ndarray, room: int) -> Iterator[np.ndarray]:
    """Splits games into groups of about `room` positions; games without positions are left out."""
    order = order[sizes[order] > 0]
    place = np.cumsum(sizes[order]) // room
    yield from np.split(order, np.flatnonzero(np.diff(place)) + 1)


def _rebuild(env: Environment, shard: Shard, group: np.ndarray) -> Iterator[Positions]:
    """Yields the positions of the games of a shard with these rows."""
    by_game = _rows_by_game(shard)
    starts = shard.starts[group]
    # The moves after a game's last position are not needed.
    ends = [int(shard.plies[by_game[game][-1]]) + 1 for game in group]
    for part in by_length(ends, _entry_bytes(env)):
        chosen = group[part.games]
        moves = [shard.moves[starts[i] : starts[i] + ends[i]] for i in part.games]
        fens = [str(shard.fens[game]) or None for game in chosen]
        played = replay_games(env, _observe, moves, fens, part.size)
        bad = chosen[played.first_bad >= 0]
        if len(bad):
            file, number = shard.files[bad[0]] + 1, shard.numbers[bad[0]]
            raise UserError(
                f"game {number} of its file {file} has moves that are not legal in {env.id}; use "
                "the parameters with which it was made, or leave env out"
            )
        rows = np.concatenate([by_game[game] for game in chosen])
        columns = np.repeat(np.arange(len(chosen)), [len(by_game[game]) for game in chosen])
        observation, mask = (x[shard.plies[rows], columns] for x in played.seen)
        yield Positions(
            observation=observation,
            legal_action_mask=mask,
            move=shard.played[rows],
            value=shard.values[rows],
            counts=shard.counts[rows],
            game_keys=shard.game_keys[shard.games[rows]],
            plies=shard.plies[rows],
            keys=shard.keys[rows],
        )


def _rows_by_game(shard: Shard) -> list[np.ndarray]:
    """Returns the rows of the positions of each game."""
    sizes = np.bincount(shard.games, minlength=len(shard.lengths))
    return np.split(np.arange(len(shard.games)), np.cumsum(sizes)[:-1])


@functools.lru_cache(maxsize=64)
def _entry_bytes(env: Environment) -> int:
    """Returns the size of an observation."""
    observation = jax.eval_shape(env.init, jax.random.PRNGKey(0)).observation
    return observation.size * observation.dtype.itemsize


def _observe(states: GameState, actions: chex.Array) -> tuple[chex.Array, chex.Array]:
    del actions
    return states.observation, states.legal_action_mask


def concatenate(parts: Sequence[Positions]) -> Positions:
    """Returns the positions of all parts, one part after the other."""
    return Positions(*(np.concatenate(x) for x in zip(*parts, strict=True)))
