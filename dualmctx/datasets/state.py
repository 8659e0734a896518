"""The progress of a data set that is being made: a journal of its finished blocks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.datasets.shards import shard_path
from dualmctx.datasets.tally import Tally
from dualmctx.runs.atomic_io import require_unchanged
from dualmctx.runs.journal import Journal, read_lines, reopen_journal

BAD_GAMES, PARTS = "bad-games.jsonl", "parts"
_BLOCKS = "blocks.jsonl"


class BadGame(NamedTuple):
    """A game that cannot be used.

    Attributes:
      file: the file.
      number: the number of the game in the file, from 1.
      reason: the reason.
    """

    file: str
    number: int
    reason: str


class Block(NamedTuple):
    """A finished block of games.

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

    def append_to(self, journal: Journal) -> None:
        """Appends the block to the journal of the data set."""
        fields = self._asdict() | {"counts": self.counts._asdict()}
        journal.append([fields | {"bad": [game._asdict() for game in self.bad]}])

    def part(self, folder: Path, split: str) -> Path:
        """Returns the path of its shard in a split.

        Raises:
          UserError: if the shard is missing or was changed.
        """
        path = shard_path(folder / PARTS, split, self.number)
        require_unchanged(path, self.shards[split], _remedy(folder))
        return path


def reopen_blocks(folder: Path) -> Journal:
    """Opens the journal of blocks to continue it.

    Raises:
      UserError: if it is damaged.
    """
    return reopen_journal(folder / PARTS / _BLOCKS, remedy=_remedy(folder))


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
