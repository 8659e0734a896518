"""The source of positions, a file or standard input; rows of results on standard output."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from dualmctx.commands.process_settings import write_standard
from dualmctx.errors import UserError
from dualmctx.evaluation.batches import full_batches, waiting_batches
from dualmctx.game_files.game_record import (
    GameRecord,
    check_games,
    reject_other_boards,
    to_questions,
)
from dualmctx.game_files.positions_file import GAME_READERS, READERS, read_json_lines
from dualmctx.game_files.questions import Question, Row, check_fields
from dualmctx.game_files.text_files import find_file
from dualmctx.runs.journal import to_line
from dualmctx.types import Environment

X = TypeVar("X")
STANDARD = "-"
"""The name of standard input and standard output on the command line."""
SUFFIXES = (*READERS, *GAME_READERS)
"""The suffixes of files of positions; one for compression may follow."""


class Source(NamedTuple):
    """A source of positions, a file or standard input.

    Attributes:
      name: name of the file, or -.
      questions: the requested positions, in order; of a file of games, those of `for_game`.
      num_bytes: size of the file, after decompression; `None` for standard input.
      num_lines: an upper bound of the number of positions; `None` if it is unknown.
      digest: digest of the content of the file; `None` for standard input.
      records: the games of a file of games.
      every_position: whether to read all positions of a game; otherwise the last.
      reopen: opens a file of games again; `None` for other sources.
    """

    name: str
    questions: Iterator[Question]
    num_bytes: int | None
    num_lines: int | None
    digest: str | None
    records: Iterator[GameRecord] | None = None
    every_position: bool = False
    reopen: Callable[[], contextlib.AbstractContextManager[BinaryIO]] | None = None

    def batches(self, size: int, questions: Iterator[Question]) -> Iterator[list[Question]]:
        """Splits questions into batches of `size` or, from standard input, also fewer."""
        return (waiting_batches if self.num_bytes is None else full_batches)(questions, size)

    def checked(self, fields: tuple[str, ...] | None) -> "Source":
        """Checks the names of selected fields with the fields of the first position.

        The first position of a file is read now, that of standard input when it arrives.
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
        """Returns the source with the positions of its games, of which `size` are checked at once.

        Games on another board are errors. If all positions are read, a game ends with an error
        before its first move that the rules forbid.
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
    found = find_file(Path(name), flag, SUFFIXES, ", or be -")
    with found.open() as file:
        if found.suffix in GAME_READERS:
            records = _not_empty(name, GAME_READERS[found.suffix](file))
            numbers = (found.num_bytes, None, found.digest)
            yield Source(name, iter(()), *numbers, records, every_position, found.open)
            return
        try:
            questions = READERS[found.suffix](file)
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
        questions = _not_empty(name, questions)
        yield Source(name, questions, found.num_bytes, found.num_lines, found.digest)


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


def write_lines(rows: list[Row]) -> None:
    """Writes rows to standard output as JSON Lines."""
    write_standard(b"".join(map(to_line, rows)))
