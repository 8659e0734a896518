"""Rebuilds the positions of a data set by playing its games on the device."""

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.checks import check
from dualmctx.datasets.manifest import open_game, read_manifest
from dualmctx.datasets.replay import by_length, replay_games
from dualmctx.datasets.shards import SPLITS, Shard, find_shards, read_shard
from dualmctx.errors import UserError
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.learner import make_augment
from dualmctx.types import Environment, GameState


class Positions(NamedTuple):
    """`[P]` positions on the host; the fields are those of `Shard` and of its states.

    `move` is the move played, and `value` the result for the player to move, NaN if it is unknown.
    """

    observation: np.ndarray
    legal_action_mask: np.ndarray
    move: np.ndarray
    value: np.ndarray
    counts: np.ndarray
    game_keys: np.ndarray
    plies: np.ndarray
    keys: np.ndarray


def _rebuild_positions(
    env: Environment,
    shards: Iterable[tuple[Shard, np.ndarray]],
    buffer_bytes: int,
    folder: Path,
) -> Iterator[Positions]:
    """Yields the positions of as many games at once as the buffer holds.

    The shards come with the order of their games. Errors of moves and FENs name the folder.
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
    """Yields the positions of a group of games of a shard."""
    sizes = np.bincount(shard.games, minlength=len(shard.lengths))
    # The rows of the positions of each game.
    by_game = np.split(np.arange(len(shard.games)), np.cumsum(sizes)[:-1])
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


_BUFFER_BYTES = 2**28


class DatasetBatch(NamedTuple):
    """A batch of M positions.

    Attributes:
      positions: observations, legal actions, one-hot policies of the moves played, and values, in
        the form that the learner takes. `positions.has_value` is false where no result is known.
      counts: `[M]` int32, the number of equal positions that a position stands for; 1 unless equal
        positions were merged.
      game_keys: `[M]` uint64, the key of each position's game, a NumPy array.
      plies: `[M]` int32, the number of moves before the position.
      keys: `[M]` uint64, equal for positions that are equal up to a symmetry, a NumPy array.
    """

    positions: TrainingBatch
    counts: chex.Array
    game_keys: np.ndarray
    plies: chex.Array
    keys: np.ndarray


def load_dataset(
    folder: Path | str,
    split: str = "train",
    env: Environment | None = None,
    *,
    batch_size: int = 256,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = True,
    augment: bool = False,
    one_per_game: bool | Literal["first"] = False,
    drop_last: bool = False,
    buffer_bytes: int = _BUFFER_BYTES,
) -> Iterator[DatasetBatch]:
    """Loads the positions of a split once, in batches.

    States are rebuilt by playing whole games on the device, so that a position costs about one step
    of the game. The order is random in two stages: shards and their games are shuffled, and then
    the positions of as many games as the buffer holds. Equal arguments give equal batches.

    Args:
      folder: the folder of the data set.
      split: "train", "validation" or "test".
      env: the game; by default it is made from the manifest, if it is a game of the package or of
        an installed one. Pass it to compile programs once.
      batch_size: M, positions per batch.
      seed: seed of the order, the symmetries and the sampled positions.
      epoch: number of the epoch; each has another order, other symmetries and positions.
      shuffle: whether the order is random; otherwise it is that of the games, sorted by their
        length within the buffer.
      augment: whether to apply a uniformly sampled symmetry of the game to each position.
      one_per_game: whether to sample one position of each game, with equal probabilities. With
        "first" it is the first position of the game, as for AlphaGo's value network, whose games
        have random moves before that position.
      drop_last: whether to drop a last batch of fewer than M positions.
      buffer_bytes: size of the observations in the buffer; at least one group of games is held.

    Returns:
      An iterator over the batches, with arrays on the device.

    Raises:
      UserError: if the folder is not a complete data set, it is of another game, or of one outside
        the package without `env`, the split does not exist or is empty, shards are missing or cut
        off, or `augment` is set for a game without symmetries; while batches are read, if a shard
        is damaged or its moves are not legal in `env`.
    """
    check(split in SPLITS, "split", repr(split), f"one of {', '.join(SPLITS)}")
    check(batch_size >= 1, "batch_size", batch_size, "at least 1")
    is_known = one_per_game in (False, True, "first")
    check(is_known, "one_per_game", repr(one_per_game), "a bool or 'first'")
    folder = Path(folder)
    manifest = read_manifest(folder)
    env = open_game(manifest, env, folder)
    if not manifest.splits[split]["rows"]:
        raise UserError(f"{folder} has no positions in the split {split}; use more games")
    augment_fn = _augment_fn(env) if augment else None
    rng = np.random.default_rng([seed, epoch])
    paths = find_shards(folder, split, manifest.splits[split])
    shards = _shards(paths, rng, shuffle=shuffle, one_per_game=one_per_game)
    return _batches(
        _shuffled(_rebuild_positions(env, shards, buffer_bytes, folder), rng if shuffle else None),
        env.num_actions,
        batch_size,
        augment_fn,
        jax.random.fold_in(jax.random.PRNGKey(seed), epoch),
        drop_last=drop_last,
    )


def _shards(
    paths: Sequence[Path],
    rng: np.random.Generator,
    *,
    shuffle: bool,
    one_per_game: bool | Literal["first"],
) -> Iterator[tuple[Shard, np.ndarray]]:
    """Yields shards, each with its games in the order in which they are loaded."""
    for index in rng.permutation(len(paths)) if shuffle else range(len(paths)):
        shard = read_shard(paths[index])
        if one_per_game == "first":
            shard = shard.with_positions(first_rows(shard))
        elif one_per_game:
            # A random order; of each game, the first position in it.
            order = rng.permutation(len(shard.games))
            _, first = np.unique(shard.games[order], return_index=True)
            shard = shard.with_positions(np.sort(order[first]))
        number = len(shard.lengths)
        yield shard, rng.permutation(number) if shuffle else np.arange(number)


def first_rows(shard: Shard) -> np.ndarray:
    """Returns the row of the first position of each game; merged games may have none."""
    return np.unique(shard.games, return_index=True)[1]


def _shuffled(buffers: Iterable[Positions], rng: np.random.Generator | None) -> Iterator[Positions]:
    for buffer in buffers:
        order = slice(None) if rng is None else rng.permutation(len(buffer.plies))
        yield Positions(*(x[order] for x in buffer))


def _batches(
    buffers: Iterable[Positions],
    num_actions: int,
    batch_size: int,
    augment_fn: Any,
    rng_key: chex.PRNGKey,
    *,
    drop_last: bool,
) -> Iterator[DatasetBatch]:
    """Splits buffers into batches; the rest of a buffer begins the first batch of the next one."""
    number, rest = itertools.count(), None
    for buffer in itertools.chain(buffers, [None]):
        if buffer is not None:
            rest = buffer if rest is None else concatenate([rest, buffer])
        is_end = buffer is None
        while rest is not None and len(rest.plies) >= (1 if is_end else batch_size):
            batch = Positions(*(x[:batch_size] for x in rest))
            rest = Positions(*(x[batch_size:] for x in rest))
            if len(batch.plies) < batch_size and drop_last:
                return
            positions = _to_training_batch(batch[:4], num_actions)
            if augment_fn is not None:
                positions = augment_fn(jax.random.fold_in(rng_key, next(number)), positions)
            yield DatasetBatch(
                positions,
                counts=jnp.asarray(batch.counts),
                game_keys=batch.game_keys,
                plies=jnp.asarray(batch.plies),
                keys=batch.keys,
            )


@functools.partial(jax.jit, static_argnums=1)
def _to_training_batch(arrays: Any, num_actions: int) -> TrainingBatch:
    observation, legal_action_mask, move, value = arrays
    is_known = ~jnp.isnan(value)
    value = jnp.where(is_known, value, 0)
    is_false = jnp.zeros(value.shape, bool)
    return TrainingBatch(
        observation=observation,
        legal_action_mask=legal_action_mask,
        policy=jax.nn.one_hot(move, num_actions),
        value=value,
        # The outcome is unknown where a factor of later rewards is left.
        remaining_discount=jnp.where(is_known, 0.0, 1.0),
        is_truncated=is_false,
        is_random=is_false,
        search_value=value,
    )


@functools.lru_cache(maxsize=16)
def _augment_fn(env: Environment) -> Any:
    return jax.jit(make_augment(*games.symmetries(env)))
