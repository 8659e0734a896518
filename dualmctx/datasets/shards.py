"""Shards: the files of a data set, NumPy archives of whole games with their positions."""

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dualmctx.datasets.checking import CheckedGame
from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_path

SPLITS = ("train", "validation", "test")
"""The parts into which a data set is split, by game."""


class Shard(NamedTuple):
    """G games with M moves, and P positions of these games.

    A position is given by its game and its ply: its state follows the moves before that ply, and
    the move played there is the next one.

    Attributes:
      moves: `[M]` int32, the actions of all games, one game after the other.
      is_random: `[M]` bool, whether no player chose the move.
      lengths: `[G]` int32, the number of moves of each game.
      results: `[G]` float32, result of the first side in [-1, 1]; NaN if it is unknown.
      game_keys: `[G]` uint64, see `keys.game_key`.
      files: `[G]` int32, the file of each game, by its place in the manifest.
      numbers: `[G]` int32, the number of each game in its file, from 1.
      fens: `[G]` text, the FEN in which the moves begin; empty for the initial position.
      games: `[P]` int32, the row of each position's game.
      plies: `[P]` int32.
      values: `[P]` float32, the result in [-1, 1] from the view of the player to move; NaN if it is
        unknown, or a random move follows. A mean if several positions were merged.
      counts: `[P]` int32, the number of equal positions with equal moves that the row stands for.
      keys: `[P]` uint64, equal for positions that are equal up to a symmetry.
      move_keys: `[P]` uint64, the same for positions with their moves.
    """

    moves: np.ndarray
    is_random: np.ndarray
    lengths: np.ndarray
    results: np.ndarray
    game_keys: np.ndarray
    files: np.ndarray
    numbers: np.ndarray
    fens: np.ndarray
    games: np.ndarray
    plies: np.ndarray
    values: np.ndarray
    counts: np.ndarray
    keys: np.ndarray
    move_keys: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """`[G]` the index of the first move of each game."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def played(self) -> np.ndarray:
        """`[P]` int32, the move played in each position."""
        return self.moves[self.starts[self.games] + self.plies]

    def with_positions(self, rows: np.ndarray) -> "Shard":
        """Returns the shard with the positions of the given rows only."""
        chosen = {name: getattr(self, name)[rows] for name in _OF_POSITIONS}
        return self._replace(**chosen)


_OF_POSITIONS = ("games", "plies", "values", "counts", "keys", "move_keys")
_TYPES = {
    **dict.fromkeys(("moves", "lengths", "files", "numbers", "games", "plies", "counts"), np.int32),
    **dict.fromkeys(("game_keys", "keys", "move_keys"), np.uint64),
    **dict.fromkeys(("results", "values"), np.float32),
    "is_random": np.bool_,
}


def shard_path(folder: Path, split: str, number: int) -> Path:
    """Returns the path of a shard, such as `train-00003.npz`."""
    return folder / f"{split}-{number:05}.npz"


def shard_paths(folder: Path, split: str) -> list[Path]:
    """Returns the paths of the shards of a split that exist, in order."""
    return sorted(folder.glob(f"{split}-[0-9]*.npz"))


def make_shard(checked: Iterable[CheckedGame]) -> Shard:
    """Returns a shard with the positions of at least one game in which a player chose the move."""
    games = list(checked)
    rows = [np.flatnonzero(~game.is_random) for game in games]
    columns = {
        "moves": _join(game.moves for game in games),
        "is_random": _join(game.is_random for game in games),
        "lengths": [len(game.moves) for game in games],
        "results": [game.result for game in games],
        "game_keys": [game.key for game in games],
        "files": [game.recorded.file for game in games],
        "numbers": [game.recorded.number for game in games],
        "games": np.repeat(np.arange(len(games)), [len(plies) for plies in rows]),
        "plies": _join(rows),
        "values": _join(game.values[plies] for game, plies in zip(games, rows, strict=True)),
        "counts": np.ones(sum(map(len, rows))),
        "keys": _join(game.keys[plies] for game, plies in zip(games, rows, strict=True)),
        "move_keys": _join(game.move_keys[plies] for game, plies in zip(games, rows, strict=True)),
    }
    arrays = {name: np.asarray(x, _TYPES[name]) for name, x in columns.items()}
    fens = np.array([game.recorded.fen or "" for game in games], np.str_)
    return Shard(fens=fens, **arrays)


def _join(arrays: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate(list(arrays))


def write_shard(shard: Shard, path: Path) -> None:
    """Writes a shard atomically; equal shards give equal bytes."""
    with atomic_path(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **shard._asdict())


def check_shard(path: Path) -> None:
    """Checks that a shard exists and is not cut off, without reading its arrays.

    Raises:
      ValueError: if it is missing, or does not end as an archive.
    """
    if not zipfile.is_zipfile(path):
        problem = "is not a complete archive" if path.exists() else "does not exist"
        raise UserError(f"the shard {path} {problem}; make the data set again")


def read_shard(path: Path) -> Shard:
    """Reads a shard.

    Raises:
      ValueError: if it is missing or damaged.
    """
    try:
        # NumPy leaves a damaged file open that it has opened itself.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return Shard(**{name: arrays[name] for name in Shard._fields})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"{path} cannot be read ({type(error).__name__}: {error}); make the data set again"
        ) from None
