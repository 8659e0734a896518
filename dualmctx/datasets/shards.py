"""Shards: the files of a data set, arrays of whole games with their positions.

A data set may come from a stranger, so each shard is checked completely when it is read.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualmctx.datasets.checking import CheckedGame
from dualmctx.errors import UserError
from dualmctx.runs.array_file import SUFFIX, read_arrays, read_shapes, write_arrays
from dualmctx.runs.folder import with_versions, without_versions

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
      game_keys: `[G]` uint64, see `checking.game_key`.
      files: `[G]` int32, the file of each game, by its place in the manifest.
      numbers: `[G]` int32, the number of each game in its file, from 1.
      fens: `[G]` Python strings, the FEN in which the moves begin; empty for the initial position.
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


_KIND = "a shard of a data set"
_OF_MOVES = ("moves", "is_random")
_OF_GAMES = ("lengths", "results", "game_keys", "files", "numbers")
_OF_POSITIONS = ("games", "plies", "values", "counts", "keys", "move_keys")
_TYPES = {
    **dict.fromkeys(("moves", "lengths", "files", "numbers", "games", "plies", "counts"), np.int32),
    **dict.fromkeys(("game_keys", "keys", "move_keys"), np.uint64),
    **dict.fromkeys(("results", "values"), np.float32),
    "is_random": np.bool_,
}


def shard_path(folder: Path, split: str, number: int) -> Path:
    """Returns the path of a shard, such as `train-00003.safetensors`."""
    return folder / f"{split}-{number:05}{SUFFIX}"


def shard_paths(folder: Path, split: str) -> list[Path]:
    """Returns the paths of the shards of a split that exist, in order."""
    return sorted(folder.glob(f"{split}-[0-9]*{SUFFIX}"))


def find_shards(folder: Path, split: str, statistics: Mapping[str, Any]) -> list[Path]:
    """Returns the paths of the shards of a split, after a check of their headers.

    Args:
      folder: the folder of the data set.
      split: the split.
      statistics: its entry in the manifest, with the numbers of `shards`, `games` and `rows`.

    Raises:
      UserError: if a shard is missing or cut off, or the numbers differ.
    """
    paths = shard_paths(folder, split)
    sizes = [_read_sizes(path) for path in paths]
    games, rows = (sum(size[name] for size in sizes) for name in ("lengths", "plies"))
    for name, number in {"shards": len(paths), "games": games, "rows": rows}.items():
        if number != statistics[name]:
            raise UserError(
                f"{folder} has {number:,} {name} in the split {split}, but its manifest says "
                f"{statistics[name]:,}; {_REMEDY}"
            )
    return paths


def make_shard(checked: Iterable[CheckedGame]) -> Shard:
    """Returns a shard with the positions of at least one game in which a player chose the move."""
    games = list(checked)
    lengths = [len(game.moves) for game in games]
    columns = {
        "moves": np.concatenate([game.moves for game in games]),
        "is_random": np.concatenate([game.is_random for game in games]),
        "lengths": lengths,
        "results": [game.result for game in games],
        "game_keys": [game.key for game in games],
        "files": [game.recorded.file for game in games],
        "numbers": [game.recorded.number for game in games],
        "games": np.repeat(np.arange(len(games)), lengths),
        "plies": np.concatenate([np.arange(length) for length in lengths]),
        "values": np.concatenate([game.values for game in games]),
        "counts": np.ones(sum(lengths)),
        "keys": np.concatenate([game.keys for game in games]),
        "move_keys": np.concatenate([game.move_keys for game in games]),
    }
    arrays = {name: np.asarray(x, _TYPES[name]) for name, x in columns.items()}
    fens = np.array([game.recorded.fen or "" for game in games], object)
    return Shard(fens=fens, **arrays).with_positions(np.flatnonzero(~arrays["is_random"]))


def write_shard(shard: Shard, path: Path) -> None:
    """Writes a shard atomically; equal shards give equal bytes.

    Whole numbers take as many bytes as the largest one of their array needs.
    """
    arrays = {name: _pack(getattr(shard, name)) for name in _TYPES}
    fens = np.frombuffer("\n".join(shard.fens).encode(), np.uint8)
    write_arrays(path, arrays | {"fens": fens}, with_versions({}))


def _pack(x: np.ndarray) -> np.ndarray:
    return x.astype(np.min_scalar_type(x.max(initial=0))) if x.dtype.kind in "iu" else x


def _read_sizes(path: Path) -> dict[str, int]:
    """Reads the lengths of the arrays of a shard."""
    with _naming(path):
        shapes = read_shapes(path, _KIND)
        _require_names(shapes)
        return {name: shape[0] if shape else 0 for name, shape in shapes.items()}


def read_shard(path: Path) -> Shard:
    """Reads and checks a shard.

    Raises:
      UserError: if it is missing or damaged, or its arrays contradict each other.
    """
    with _naming(path):
        found = read_arrays(path, _KIND)
        without_versions(found.record, path)
        return _to_shard(found.arrays)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Adds the path and the remedy to errors."""
    try:
        yield
    except UserError as error:
        reason = str(error) if str(path) in str(error) else f"{path} cannot be used: {error}"
        raise UserError(f"{reason}; {_REMEDY}") from None


_REMEDY = "make the data set again"


def _to_shard(arrays: dict[str, np.ndarray]) -> Shard:
    """Returns the shard of the arrays of a file."""
    _require_names(arrays)
    _require(all(map(_is_valid, arrays, arrays.values())))
    columns = {name: arrays[name].astype(_TYPES[name]) for name in _TYPES}
    try:
        fens = arrays["fens"].tobytes().decode().split("\n")
    except UnicodeDecodeError:
        fens = []
    _require(len(fens) == len(columns["lengths"]))
    for names in (_OF_MOVES, _OF_GAMES, _OF_POSITIONS):
        _require(len({len(columns[name]) for name in names}) == 1)
    shard = Shard(fens=np.array(fens, object), **columns)
    _check(shard)
    return shard


def _require_names(arrays: Mapping[str, Any]) -> None:
    if names := sorted(arrays.keys() ^ set(Shard._fields)):
        raise UserError(f"{', '.join(names)}: missing, or unknown")


def _is_valid(name: str, x: np.ndarray) -> bool:
    """Returns whether an array of a file has the type and the range of its name."""
    dtype = np.dtype(_TYPES.get(name, np.uint8))
    if dtype == np.bool_ and x.dtype == dtype:
        is_in_range = x.view(np.uint8).max(initial=0) <= 1
    elif dtype.kind == "f" and x.dtype == dtype:
        is_in_range = not (np.abs(x) > 1).any()
    else:
        is_in_range = x.dtype.kind == "u" and int(x.max(initial=0)) <= np.iinfo(dtype).max
    return bool(x.ndim == 1 and is_in_range)


def _check(shard: Shard) -> None:
    """Checks that moves, games and positions of a shard fit together."""
    _require(int(shard.lengths.sum(dtype=np.int64)) == len(shard.moves))
    _require(min(shard.numbers.min(initial=1), shard.counts.min(initial=1)) >= 1)
    rows, plies = shard.games, shard.plies
    _require(rows.max(initial=-1) < len(shard.lengths))
    _require((plies < shard.lengths[rows]).all())
    steps = np.diff(rows), np.diff(plies)
    _require(((steps[0] > 0) | ((steps[0] == 0) & (steps[1] > 0))).all())
    _require(not shard.is_random[shard.starts[rows] + plies].any())


def _require(is_valid: Any) -> None:
    if not is_valid:
        raise UserError("its arrays have wrong types or ranges, or contradict each other")
