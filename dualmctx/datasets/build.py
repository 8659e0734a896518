"""Makes a data set from files of games, block by block, so that a killed run can be resumed."""

import dataclasses
import itertools
import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from dualmctx.datasets.checking import CheckedGame, check_games
from dualmctx.datasets.manifest import Manifest, Tally, describe_split, write_manifest
from dualmctx.datasets.records import RecordedGame, RecordFile, read_records
from dualmctx.datasets.shards import (
    SPLITS,
    Shard,
    make_shard,
    read_shard,
    shard_path,
    write_shard,
)
from dualmctx.errors import UserError
from dualmctx.evaluation.answers import shorten
from dualmctx.evaluation.batches import full_batches
from dualmctx.runs.atomic_io import atomic_path, checksum_of, make_folder, require_unchanged
from dualmctx.runs.journal import read_lines, reopen_journal, write_rows
from dualmctx.types import Environment

BAD_GAMES, PARTS = "bad-games.jsonl", "parts"
_BLOCKS = "blocks.jsonl"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a data set is made from games; `dualmctx dataset` has the same options."""

    game: str
    """The game, by name or as package.module:factory."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """Parameters of the game, such as `komi 5.5`."""
    validation: float = 0.05
    """Share of the games for validation."""
    test: float = 0.05
    """Share of the games for the test."""
    results: Literal["game", "record"] = "game"
    """Where a finished game has its result from, if the file has one too: its own end, or the
    record. A game that is not finished has the result of the record."""
    unknown_results: Literal["skip", "keep"] = "skip"
    """Whether to skip or to keep games without a result."""
    merge: bool = False
    """Store equal positions with equal moves once, up to symmetry, with their number and the mean
    of their known results."""
    block: int = 4096
    """Number of games that are read for one shard of each split."""


class BadGame(NamedTuple):
    """A game that cannot be used: its file, its number in the file, from 1, and the reason."""

    file: str
    number: int
    reason: str


class Block(NamedTuple):
    """A finished block of games, a row of the journal of the data set.

    Attributes:
      number: its number, from 0.
      counts: counts of its games.
      games_of_files: number of its games in each file.
      shards: the checksum of its shard in each split that has games of the block.
      bad: its bad games.
    """

    number: int
    counts: Tally
    games_of_files: list[int]
    shards: dict[str, Any]
    bad: list[BadGame]

    def to_row(self) -> dict[str, Any]:
        """Returns the fields as JSON values."""
        bad = [game._asdict() for game in self.bad]
        return self._asdict() | {"counts": self.counts._asdict(), "bad": bad}

    def part(self, folder: Path, split: str) -> Path:
        """Returns the path of its shard in a split.

        Raises:
          UserError: if the shard is missing or was changed.
        """
        path = shard_path(folder / PARTS, split, self.number)
        require_unchanged(path, self.shards[split], _remedy(folder))
        return path


def read_blocks(folder: Path) -> Iterator[Block]:
    """Reads the finished blocks of a data set.

    Raises:
      UserError: if the journal is damaged.
    """
    for line in read_lines(folder / PARTS / _BLOCKS, _remedy(folder)):
        row = line.row()
        counts, bad = Tally(**row["counts"]), [BadGame(**game) for game in row["bad"]]
        yield Block(**row | {"counts": counts, "bad": bad})


def count_read(folder: Path) -> Tally:
    """Counts the games of the finished blocks of a data set."""
    return Tally.total(block.counts for block in read_blocks(folder))


def _remedy(folder: Path) -> str:
    return f"remove the folder {folder / PARTS}, and the games are read again"


def split_of(game_key: int, validation: float, test: float) -> str:
    """Returns the split of a game, by its key alone.

    A game therefore stays in its split if other games are added, and equal games are in the same
    split. With a larger share, a split keeps its games, if the test's share is unchanged.
    """
    place = game_key / 2**64
    if place < test:
        return "test"
    return "validation" if place < test + validation else "train"


def build_shards(
    env: Environment,
    files: Sequence[RecordFile],
    folder: Path,
    recipe: Recipe,
    *,
    keep_duplicates: bool = False,
) -> Iterator[tuple[Block, RecordedGame]]:
    """Reads games, checks them and writes shards into `folder/parts`; continues after a kill.

    Args:
      env: a game of `games.make`.
      files: the files of games.
      folder: the folder of the data set, which exists.
      recipe: the recipe; that of the interrupted call.
      keep_duplicates: whether to keep games that are equal to an earlier one. They are then not
        counted as duplicates, and are in the same split.

    Yields:
      Each block after it has been written, and the last game that was read.

    Raises:
      UserError: if a part of the interrupted call is missing or damaged.
    """
    parts = folder / PARTS
    make_folder(parts)
    journal = reopen_journal(parts / _BLOCKS, remedy=_remedy(folder))
    read, seen = 0, set[int]()
    # A name may have characters that are not text, and a reason may come from a file.
    names = [shorten(record.name) for record in files]
    for block in read_blocks(folder):
        read += block.counts.read
        for split in block.shards:
            seen.update(read_shard(block.part(folder, split)).game_keys.tolist())
    records = itertools.islice(read_records(files), read, None)
    for games in full_batches(records, recipe.block):
        number, shards = journal.num_rows, {}
        kept, bad, counts = _check_block(env, games, names, seen, recipe, keep_duplicates)
        for split, chosen in kept.items():
            if chosen:
                path = shard_path(parts, split, number)
                write_shard(make_shard(chosen), path)
                shards[split] = checksum_of(path)
        of_files = np.bincount([game.file for game in games], minlength=len(files)).tolist()
        block = Block(number, counts, of_files, shards, bad)
        journal.append([block.to_row()])
        yield block, games[-1]


def _check_block(
    env: Environment,
    games: Sequence[RecordedGame],
    names: Sequence[str],
    seen: set[int],
    recipe: Recipe,
    keep_duplicates: bool,
) -> tuple[dict[str, list[CheckedGame]], list[BadGame], Tally]:
    """Checks a block; adds its games to `seen`, the keys of the games before it.

    Returns:
      The games of each split, the bad games, and the counts.
    """
    kept: dict[str, list[CheckedGame]] = {split: [] for split in SPLITS}
    counts = Tally(read=len(games))._asdict()
    bad: list[BadGame] = []
    prefers_record = recipe.results == "record"
    checked = check_games(env, games, recipe.game_parameters, prefer_record=prefers_record)
    for recorded, game in zip(games, checked, strict=True):
        if isinstance(game, str):
            bad.append(BadGame(names[recorded.file], recorded.number, shorten(game)))
            counts["bad"] += 1
        elif game.is_random.all():
            counts["without_positions"] += 1
        elif math.isnan(game.result) and recipe.unknown_results == "skip":
            counts["without_result"] += 1
        elif game.key in seen and not keep_duplicates:
            counts["duplicates"] += 1
        else:
            seen.add(game.key)
            counts["contradicted"] += game.is_contradicted
            kept[split_of(game.key, recipe.validation, recipe.test)].append(game)
    return kept, bad, Tally(**counts)


class NoGamesError(UserError):
    """No game of the files can be used."""


def finish(
    env: Environment,
    folder: Path,
    files: Sequence[RecordFile],
    recipe: Recipe,
    settings: dict[str, Any],
) -> Manifest:
    """Merges equal positions, moves the shards into place, and writes the manifest.

    All games have been read. The keys of the positions of all splits are in memory, 8 bytes
    for each row. After a kill, the call can be repeated.

    Args:
      env: the game.
      folder: the folder, after `build_shards`.
      files: the files of games.
      recipe: the recipe.
      settings: the settings, for the manifest.

    Raises:
      NoGamesError: if no game was kept.
      UserError: if the folder is damaged.
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
        paths = _write_split(folder, split, blocks, merge=recipe.merge)
        splits[split] = describe_split(paths, env.num_actions)
        keys[split] = np.concatenate([*(read_shard(x).keys for x in paths), np.zeros(0, "u8")])
    numbers = np.sum([block.games_of_files for block in blocks], axis=0).tolist()
    manifest = Manifest(
        game=recipe.game if ":" in recipe.game else env.id,
        game_parameters=recipe.game_parameters,
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
    if not counts.read:
        names = ", ".join(file.name for file in files)
        return NoGamesError(f"there is no game in {names}; name files of finished games")
    return NoGamesError(
        f"no game was kept of {counts.read} read: {counts.bad} bad, {counts.without_result} without"
        f" a result, {counts.without_positions} without a chosen move"
        + (f"; {bad[0].file}, game {bad[0].number}: {bad[0].reason}" if bad else "")
    )


def _write_split(folder: Path, split: str, blocks: Sequence[Block], *, merge: bool) -> list[Path]:
    """Writes the shards of a split from its parts; returns their paths."""
    parts = [block.part(folder, split) for block in blocks if split in block.shards]
    paths = [shard_path(folder, split, number) for number in range(len(parts))]
    if merge:
        for shard, path in zip(_merge([read_shard(x) for x in parts]), paths, strict=True):
            write_shard(shard, path)
    else:
        for part, path in zip(parts, paths, strict=True):
            # A copy and not a move, so that a kill leaves all parts.
            with atomic_path(path) as draft:
                shutil.copyfile(part, draft)
    return paths


def _merge(shards: list[Shard]) -> list[Shard]:
    """Keeps the first of each group of equal positions and moves.

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
