"""Finishes a data set: merges equal positions, moves the shards into place, and counts."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualmctx.datasets.manifest import Manifest, write_manifest
from dualmctx.datasets.records import RecordFile
from dualmctx.datasets.shards import SPLITS, Shard, read_shard, shard_path, write_shard
from dualmctx.datasets.state import BAD_GAMES, PARTS, BadGame, Block, read_blocks
from dualmctx.datasets.tally import Tally, describe_split
from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_path
from dualmctx.runs.journal import write_rows
from dualmctx.types import Environment


class NoGamesError(UserError):
    """No game of the files can be used."""


def finish(
    env: Environment,
    folder: Path,
    files: Sequence[RecordFile],
    *,
    game: str,
    game_parameters: dict[str, Any],
    settings: dict[str, Any],
    merge: bool,
) -> Manifest:
    """Writes the shards and the manifest of a data set whose games have all been read.

    The keys of all positions of a split are in memory, 16 bytes for each. After a kill, the call
    can be repeated.

    Args:
      env: the game.
      folder: the folder, after `build_shards`.
      files: the files of games.
      game: the name of the game.
      game_parameters: its parameters.
      settings: the settings, for the manifest.
      merge: whether to merge equal positions with equal moves, up to symmetry, within each split.

    Returns:
      The manifest.

    Raises:
      NoGamesError: if no game was kept.
      ValueError: if the folder is damaged.
    """
    blocks = list(read_blocks(folder))
    counts = Tally.total(block.counts for block in blocks)
    bad = [game for block in blocks for game in block.bad]
    (folder / BAD_GAMES).unlink(missing_ok=True)
    if bad:
        write_rows(folder / BAD_GAMES, (game._asdict() for game in bad))
    if not any(block.shards for block in blocks):
        raise _no_games(counts, bad, files)
    splits, keys = {}, {}
    for split in SPLITS:
        number = _write_split(folder, split, blocks, merge=merge)
        shards = [shard_path(folder, split, index) for index in range(number)]
        statistics = describe_split(map(read_shard, shards), env.num_actions)
        splits[split] = statistics | {"shards": number}
        keys[split] = np.concatenate([*(read_shard(x).keys for x in shards), np.zeros(0, "u8")])
    numbers = np.sum([block.games_of_files for block in blocks], axis=0).tolist()
    manifest = Manifest(
        game=game,
        game_parameters=game_parameters,
        settings=settings,
        files=[
            {"name": record.name, "digest": record.file.digest, "games": number}
            for record, number in zip(files, numbers, strict=True)
        ],
        counts=counts._asdict(),
        splits=splits,
        shared={x: int(np.isin(keys[x], keys["train"]).sum()) for x in SPLITS[1:]},
        distinct={x: len(np.unique(keys[x])) for x in SPLITS},
    )
    write_manifest(folder, manifest)
    shutil.rmtree(folder / PARTS)
    return manifest


def _no_games(counts: Tally, bad: Sequence[BadGame], files: Sequence[RecordFile]) -> NoGamesError:
    """Returns the error that no game was kept; the message says why."""
    if not counts.read:
        names = ", ".join(file.name for file in files)
        return NoGamesError(f"there is no game in {names}; name files of finished games")
    return NoGamesError(
        f"no game was kept of {counts.read} read: {counts.bad} bad, {counts.without_result} without"
        f" a result, {counts.without_positions} without a chosen move"
        + (f"; {bad[0].file}, game {bad[0].number}: {bad[0].reason}" if bad else "")
    )


def _write_split(folder: Path, split: str, blocks: Sequence[Block], *, merge: bool) -> int:
    """Writes the shards of a split from its parts; returns their number."""
    parts = [block.part(folder, split) for block in blocks if split in block.shards]
    merged = _merge([read_shard(path) for path in parts]) if merge else None
    for number, path in enumerate(parts):
        target = shard_path(folder, split, number)
        if merged is None:
            # A copy and not a move, so that a kill leaves all parts.
            with atomic_path(target) as draft:
                shutil.copyfile(path, draft)
        else:
            write_shard(merged[number], target)
    return len(parts)


def _merge(shards: list[Shard]) -> list[Shard]:
    """Keeps the first of each group of equal positions with equal moves, with their number.

    Its value becomes the mean of the known values of the group.
    """
    if not shards:
        return []
    keys = np.concatenate([shard.move_keys for shard in shards])
    values = np.concatenate([shard.values for shard in shards]).astype(np.float64)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    counts = np.bincount(group)
    known = np.bincount(group, weights=~np.isnan(values))
    sums = np.bincount(group, weights=np.nan_to_num(values))
    means = np.where(known > 0, sums / np.maximum(known, 1), np.nan)
    is_first = np.zeros(len(keys), bool)
    is_first[first] = True
    ends = np.cumsum([len(shard.plies) for shard in shards])
    merged = []
    for shard, end in zip(shards, ends, strict=True):
        rows = np.arange(end - len(shard.plies), end)
        chosen = shard._replace(
            counts=counts[group[rows]].astype(np.int32),
            values=means[group[rows]].astype(np.float32),
        )
        merged.append(chosen.with_positions(np.flatnonzero(is_first[rows])))
    return merged
