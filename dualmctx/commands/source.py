"""Where positions come from: a file, or what comes in."""

import contextlib
import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dualmctx.evaluation.positions_file import READERS, Question, read_json_lines
from dualmctx.evaluation.streams import full_batches, waiting_batches

STANDARD = "-"
"""What standard input and output are called."""


class Source(NamedTuple):
    """Where positions come from.

    Attributes:
      name: of the file, or -.
      questions: the positions, in order.
      num_bytes: of the file; `None` for standard input, which may make wait.
      digest: of the file's content, likewise.
    """

    name: str
    questions: Iterator[Question]
    num_bytes: int | None
    digest: str | None

    def batches(self, size: int, questions: Iterator[Question]) -> Iterator[list[Question]]:
        """Cuts questions into batches of a size at most."""
        return (waiting_batches if self.num_bytes is None else full_batches)(questions, size)


@contextlib.contextmanager
def open_source(name: str, flag: str = "positions") -> Iterator[Source]:
    """Opens positions.

    Args:
      name: of the file, or - for standard input.
      flag: what error messages call it.

    Raises:
      ValueError: when there is no such file, or it cannot be read as positions, in one line.
    """
    if name == STANDARD:
        yield Source(name, read_json_lines(open_standard_input()), None, None)
        return
    path = Path(name)
    if path.suffix not in READERS:
        known = ", ".join(READERS)
        raise ValueError(f"{flag} is {name}; its name must end in one of {known}, or be - alone")
    if not path.is_file():
        raise ValueError(f"{flag} is {name}; there is no such file")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        num_bytes = file.tell()
        file.seek(0)
        yield Source(name, _questions(name, path.suffix, file), num_bytes, digest)


def _questions(name: str, suffix: str, file: BinaryIO) -> Iterator[Question]:
    try:
        questions = iter(READERS[suffix](file))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    first = next(questions, None)
    if first is None:
        raise ValueError(f"{name} has no positions")
    return itertools.chain([first], questions)


def open_standard_input() -> BinaryIO:
    """Opens standard input for a thread to read from, never to be closed.

    Closing would wait for the thread, which may wait for input that never comes; so would Python
    when it ends, if the thread read from `sys.stdin`.
    """
    return open(0, "rb", closefd=False)
