"""The source of positions: a file or standard input."""

import contextlib
import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from dualmctx.errors import UserError
from dualmctx.evaluation.compression import (
    GZIP,
    ZSTANDARD,
    open_decompressed,
    require_compression,
    split_suffix,
)
from dualmctx.evaluation.epd_file import read_epd
from dualmctx.evaluation.fields import check_fields
from dualmctx.evaluation.game_check import check_games, reject_other_boards
from dualmctx.evaluation.game_record import GameRecord, ReadGamesFn, to_questions
from dualmctx.evaluation.pgn_file import read_pgn
from dualmctx.evaluation.positions_file import READERS, read_json_lines
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.sgf_file import read_sgf
from dualmctx.evaluation.streams import full_batches, waiting_batches
from dualmctx.evaluation.text_files import as_utf8
from dualmctx.types import Environment

X = TypeVar("X")
STANDARD = "-"
"""The name of standard input and standard output on the command line."""
_LINE_READERS = READERS | {".epd": read_epd}
_GAME_READERS: dict[str, ReadGamesFn] = {".pgn": read_pgn, ".sgf": read_sgf}
SUFFIXES = (*_LINE_READERS, *_GAME_READERS)
"""The suffixes of files of positions; one for compression may follow."""


class Source(NamedTuple):
    """A source of positions.

    Attributes:
      name: name of the file, or -.
      questions: the requested positions, in order; of a file of games, those of `for_game`.
      num_bytes: size of the file, after decompression; `None` for standard input.
      num_lines: an upper bound of the number of its positions; `None` for standard input and for
        games.
      digest: digest of the content of the file; `None` for standard input.
      records: the games of a file of games.
      every_position: whether to read all positions of a game; otherwise the last.
    """

    name: str
    questions: Iterator[Question]
    num_bytes: int | None
    num_lines: int | None
    digest: str | None
    records: Iterator[GameRecord] | None = None
    every_position: bool = False

    def batches(self, size: int, questions: Iterator[Question]) -> Iterator[list[Question]]:
        """Splits questions into batches of `size` or, from standard input, also fewer."""
        return (waiting_batches if self.num_bytes is None else full_batches)(questions, size)

    def checked(self, fields: tuple[str, ...] | None) -> "Source":
        """Checks the names of selected fields with the fields of the first position.

        The first position of a file is read now, that of standard input when it arrives.

        Raises:
          ValueError: see `check_fields`; from standard input, when the first position is read.
        """
        if fields is None:
            return self
        if self.records is not None:
            first = next(self.records)
            check_fields(fields, next(to_questions([first], every=True)).extra or ())
            return self._replace(records=itertools.chain([first], self.records))
        questions = _checked(self.questions, fields)
        if self.num_bytes is not None:
            questions = itertools.chain([next(questions)], questions)
        return self._replace(questions=questions)

    def for_game(self, env: Environment, size: int) -> "Source":
        """Returns the source with the positions of its games.

        Games on another board are errors. If all positions are read, a game ends with an error
        before its first move that the rules forbid.

        Args:
          env: the game.
          size: number of games that are checked at once.
        """
        if self.records is None:
            return self
        records = reject_other_boards(env, self.records)
        records = check_games(env, records, size) if self.every_position else records
        return self._replace(questions=to_questions(records, every=self.every_position))

    def echoed(self) -> "Source":
        """Returns the source with the moves and FENs of its positions in the results."""
        return self._replace(questions=map(Question.echoed, self.questions))


def _checked(questions: Iterator[Question], fields: tuple[str, ...]) -> Iterator[Question]:
    for first in questions:
        check_fields(fields, first.extra or ())
        yield first
        yield from questions


@contextlib.contextmanager
def open_source(
    name: str, flag: str = "positions", *, every_position: bool = False
) -> Iterator[Source]:
    """Opens a source of positions.

    Args:
      name: name of the file, or - for standard input.
      flag: name of the flag, for error messages.
      every_position: whether to read all positions of a game in PGN or SGF; otherwise the last.

    Raises:
      ValueError: if the file does not exist or cannot be parsed.
    """
    if name == STANDARD:
        yield Source(name, read_json_lines(open_standard_input()), None, None, None)
        return
    path = Path(name)
    suffix, _ = split_suffix(path)
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise UserError(
            f"{flag} is {name}; it must end in one of {known}, or be -; {GZIP} and {ZSTANDARD} may "
            "follow"
        )
    if not path.is_file():
        raise UserError(f"{flag} is {name}; the file does not exist")
    require_compression(path)
    with open_decompressed(path) as file:
        scanned = _scan(file)
    with open_decompressed(path) as raw:
        file = as_utf8(raw)
        if suffix in _GAME_READERS:
            records = _not_empty(name, _GAME_READERS[suffix](file))
            numbers = (scanned.num_bytes, None, scanned.digest)
            yield Source(name, iter(()), *numbers, records, every_position)
            return
        try:
            questions = iter(_LINE_READERS[suffix](file))
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
        questions = _not_empty(name, questions)
        yield Source(name, questions, scanned.num_bytes, scanned.num_lines, scanned.digest)


class _Scanned(NamedTuple):
    """The size of a file in bytes and lines, and the digest of its content."""

    num_bytes: int
    num_lines: int
    digest: str


def _scan(file: BinaryIO) -> _Scanned:
    """Reads a file to its end."""
    digest, num_bytes, num_lines, last = hashlib.sha256(), 0, 0, b"\n"
    while block := file.read(2**20):
        digest.update(block)
        num_bytes += len(block)
        # A carriage return may end a line, too.
        num_lines += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
        last = block[-1:]
    return _Scanned(num_bytes, num_lines + (last != b"\n"), digest.hexdigest()[:16])


def _not_empty(name: str, items: Iterator[X]) -> Iterator[X]:
    first = next(items, None)
    if first is None:
        raise UserError(f"{name} has no positions")
    return itertools.chain([first], items)


def open_standard_input() -> BinaryIO:
    """Opens standard input for reading in a thread; the file is never closed.

    Closing it would wait for the thread, which may wait for input forever. For the same reason, the
    thread must not read from `sys.stdin`, which Python closes at exit.
    """
    return open(0, "rb", closefd=False)
