"""The positions that the value network learns, and those on which it is tested, in memory."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dualmctx.datasets.loading import first_rows
from dualmctx.datasets.manifest import read_manifest
from dualmctx.datasets.positions import concatenate, rebuild_positions
from dualmctx.datasets.shards import Shard, read_shard, shard_paths
from dualmctx.errors import UserError
from dualmctx.types import Environment

ONE, ALL = "one", "all"
"""Which positions of a game are learned: the first one after the random move, or all after it."""
# Size of the observations that are rebuilt at once.
_BUFFER_BYTES = 2**26


class ValuePositions(NamedTuple):
    """`[P]` positions in random order.

    Attributes:
      observation: `[P, ...]` from the view of the player to move.
      value: `[P]` float32, the result of the game for the player to move.
      keys: `[P]` uint64, equal for positions that are equal up to a symmetry.
      num_games: the number of their games.
    """

    observation: np.ndarray
    value: np.ndarray
    keys: np.ndarray
    num_games: int


class ValueData(NamedTuple):
    """The positions of the value stage.

    Attributes:
      train: positions of training games, as many as there are training games.
      test: by `ONE` and `ALL`, positions of held-out games.
      is_unseen: bool for each position of `test[ONE]`, whether no position of `train` equals it, up
        to a symmetry.
    """

    train: ValuePositions
    test: dict[str, ValuePositions]
    is_unseen: np.ndarray

    @property
    def mean(self) -> float:
        """The mean value of the training positions: the best constant prediction."""
        return float(np.mean(self.train.value))


def load_value_data(
    env: Environment, folder: Path, which: str, max_test: int, seed: int
) -> ValueData:
    """Loads the positions of a data set of `make_value_games`.

    All training positions are in memory, with 4 bytes or less for each entry of an observation.

    Args:
      env: the game.
      folder: the folder of the data set.
      which: the positions for training: `ONE` of each game, or `ALL` of fewer games, which are
        sampled at random.
      max_test: largest number of held-out positions of each kind.
      seed: seed of the order, and of the games whose positions are all used.

    Raises:
      ValueError: if the data set is damaged, or has no game for training or none for the test.
    """
    num_games = read_manifest(folder).splits["train"]["games"]
    train = _load(env, folder, "train", which, num_games, seed)
    test = {name: _load(env, folder, "test", name, max_test, seed) for name in (ONE, ALL)}
    return ValueData(train, test, ~np.isin(test[ONE].keys, train.keys))


def _load(
    env: Environment, folder: Path, split: str, which: str, limit: int, seed: int
) -> ValuePositions:
    """Loads positions of games that are sampled at random, at most `limit` in all."""
    rng = np.random.default_rng([seed, 2])
    shards = [read_shard(path) for path in shard_paths(folder, split)]
    if which == ONE:
        shards = [shard.with_positions(first_rows(shard)) for shard in shards]
    if not shards:
        raise UserError(
            f"{folder} has no games in the split {split}; choose more --value.num-games or "
            "another --value.test-share, in another folder"
        )
    sampled = _sample_games(shards, limit, rng)
    found = concatenate([*rebuild_positions(env, sampled, _BUFFER_BYTES, folder)])
    rows = rng.permutation(len(found.value))[:limit]
    num_games = sum(len(order) for _, order in sampled)
    chosen = (x[rows] for x in (found.observation, found.value, found.keys))
    return ValuePositions(*chosen, num_games=num_games)


def _sample_games(
    shards: list[Shard], limit: int, rng: np.random.Generator
) -> list[tuple[Shard, np.ndarray]]:
    """Returns shards with the rows of games, sampled until they have `limit` positions."""
    sizes = [np.bincount(shard.games, minlength=len(shard.lengths)) for shard in shards]
    counts = np.concatenate(sizes)
    order = rng.permutation(len(counts))
    order = order[: np.searchsorted(np.cumsum(counts[order]), limit) + 1]
    parts, first = [], 0
    for shard in shards:
        end = first + len(shard.lengths)
        parts.append((shard, order[(order >= first) & (order < end)] - first))
        first = end
    return parts
