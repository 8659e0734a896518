"""Makes a data set from files of games, block by block, so that a killed run can be resumed."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualmctx.datasets.checking import CheckedGame, check_games
from dualmctx.datasets.records import RecordedGame, RecordFile, read_records
from dualmctx.datasets.shards import SPLITS, make_shard, read_shard, shard_path, write_shard
from dualmctx.datasets.state import PARTS, BadGame, Block, read_blocks, reopen_blocks
from dualmctx.datasets.tally import Tally, has_positions
from dualmctx.evaluation.answers import full_batches, shorten
from dualmctx.runs.atomic_io import checksum_of, make_folder
from dualmctx.types import Environment


class BuildOptions(NamedTuple):
    """How a data set is made from games.

    Attributes:
      validation: share of the games for validation, in [0, 1).
      test: share of the games for the test.
      prefer_record: whether the result in a file comes before that of a game that is over.
      keep_unknown: whether to keep games without a result.
      block: number of games that are read for one shard of each split.
      keep_duplicates: whether to keep games that are equal to an earlier one. They are then not
        counted as duplicates, and are in the same split.
      game_parameters: the parameters of the game; with `None`, those of the records are not
        checked.
    """

    validation: float = 0.05
    test: float = 0.05
    prefer_record: bool = False
    keep_unknown: bool = False
    block: int = 4096
    keep_duplicates: bool = False
    game_parameters: dict[str, Any] | None = None


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
    env: Environment, files: Sequence[RecordFile], folder: Path, options: BuildOptions
) -> Iterator[tuple[Block, RecordedGame]]:
    """Reads games, checks them and writes shards into `folder/parts`; continues after a kill.

    Args:
      env: a game of `games.make`.
      files: the files of games.
      folder: the folder of the data set, which exists.
      options: the options; those of the interrupted call.

    Yields:
      Each block after it has been written, and the last game that was read.

    Raises:
      UserError: if a part of the interrupted call is missing or damaged.
    """
    parts = folder / PARTS
    make_folder(parts)
    journal, read, seen = reopen_blocks(folder), 0, set[int]()
    # A name may have characters that are not text, and a reason may come from a file.
    names = [shorten(record.name) for record in files]
    for block in read_blocks(folder):
        read += block.counts.read
        for split in block.shards:
            seen.update(read_shard(block.part(folder, split)).game_keys.tolist())
    records = itertools.islice(read_records(files), read, None)
    for games in full_batches(records, options.block):
        number, shards = journal.num_rows, {}
        kept, bad, counts = _check_block(env, games, names, seen, options)
        for split, chosen in kept.items():
            if chosen:
                path = shard_path(parts, split, number)
                write_shard(make_shard(chosen), path)
                shards[split] = checksum_of(path)
        of_files = np.bincount([game.file for game in games], minlength=len(files)).tolist()
        block = Block(number, counts, of_files, shards, bad)
        block.append_to(journal)
        yield block, games[-1]


def _check_block(
    env: Environment,
    games: Sequence[RecordedGame],
    names: Sequence[str],
    seen: set[int],
    options: BuildOptions,
) -> tuple[dict[str, list[CheckedGame]], list[BadGame], Tally]:
    """Checks a block; adds its games to `seen`, the keys of the games before it.

    Returns:
      The games of each split, the bad games, and the counts.
    """
    kept: dict[str, list[CheckedGame]] = {split: [] for split in SPLITS}
    counts = Tally(read=len(games))._asdict()
    bad: list[BadGame] = []
    checked = check_games(
        env, games, prefer_record=options.prefer_record, game_parameters=options.game_parameters
    )
    for recorded, game in zip(games, checked, strict=True):
        if isinstance(game, str):
            bad.append(BadGame(names[recorded.file], recorded.number, shorten(game)))
            counts["bad"] += 1
        elif not has_positions(game):
            counts["without_positions"] += 1
        elif math.isnan(game.result) and not options.keep_unknown:
            counts["without_result"] += 1
        elif game.key in seen and not options.keep_duplicates:
            counts["duplicates"] += 1
        else:
            seen.add(game.key)
            counts["contradicted"] += game.is_contradicted
            kept[split_of(game.key, options.validation, options.test)].append(game)
    return kept, bad, Tally(**counts)
