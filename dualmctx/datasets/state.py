"""The progress of a data set that is being made, and the games that could not be used."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.datasets.tally import Tally
from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_write_text

BAD_GAMES, PARTS = "bad-games.jsonl", "parts"
_STATE = "state.json"


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


class State(NamedTuple):
    """The progress of a data set, saved after each block.

    Attributes:
      blocks: number of finished blocks.
      counts: counts of the games in these blocks.
      games_of_files: number of games read from each file.
      bad_bytes: size of the file of bad games after these blocks.
      is_complete: whether all games have been read.
    """

    blocks: int = 0
    counts: Tally = Tally()
    games_of_files: tuple[int, ...] = ()
    bad_bytes: int = 0
    is_complete: bool = False


def read_bad_games(folder: Path) -> list[BadGame]:
    """Reads the bad games of the finished blocks; a kill may have left others, and half a row.

    Raises:
      ValueError: if the state of the data set is damaged.
    """
    file = folder / BAD_GAMES
    rows = file.read_bytes()[: read_state(folder).bad_bytes] if file.exists() else b""
    return [BadGame(**json.loads(row)) for row in rows.splitlines()]


def truncate(file: Path, size: int) -> None:
    """Drops the rows of a block that was not finished."""
    if file.exists():
        os.truncate(file, size)


def append_bad_games(file: Path, bad: Iterable[BadGame], size: int) -> int:
    """Appends bad games to the file; returns its new size."""
    data = "".join(json.dumps(game._asdict()) + "\n" for game in bad).encode()
    if data:
        with file.open("ab") as lines:
            lines.write(data)
            lines.flush()
            os.fsync(lines.fileno())
    return size + len(data)


def read_state(folder: Path) -> State:
    """Reads the progress of a data set that is being made.

    Raises:
      ValueError: if it is damaged.
    """
    file = folder / PARTS / _STATE
    if not file.exists():
        return State()
    try:
        content = dict(json.loads(file.read_text()))
        counts, numbers = Tally(**content.pop("counts")), tuple(content.pop("games_of_files"))
        return State(**content, counts=counts, games_of_files=numbers)
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{file} cannot be read: {error}; choose another folder") from None


def write_state(folder: Path, state: State) -> None:
    """Writes the progress atomically."""
    content: dict[str, Any] = state._asdict() | {"counts": state.counts._asdict()}
    atomic_write_text(folder / PARTS / _STATE, json.dumps(content) + "\n")
