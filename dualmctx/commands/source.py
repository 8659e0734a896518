"""The source of positions: a file or standard input."""

import contextlib
import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dualmctx.evaluation.positions_file import READERS, read_json_lines
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.streams import full_batches, waiting_batches

STANDARD = "-"
"""The name of standard input and standard output on the command line."""


class Source(NamedTuple):
    """A source of positions.

    Attributes:
      name: name of the file, or -.
      questions: the requested positions, in order.
      num_bytes: size of the file; `None` for standard input.
      num_lines: an upper bound of the number of its positions; `None` for standard input.
      digest: digest of the content of the file; `None` for standard input.
    """

    name: str
    questions: Iterator[Question]
    num_bytes: int | None
    num_lines: int | None
    digest: str | None

    def batches(self, size: int, questions: Iterator[Question]) -> Iterator[list[Question]]:
        """Splits questions into batches of `size` or, from standard input, also fewer."""
        return (waiting_batches if self.num_bytes is None else full_batches)(questions, size)


@contextlib.contextmanager
def open_source(name: str, flag: str = "positions") -> Iterator[Source]:
    """Opens a source of positions.

    Args:
      name: name of the file, or - for standard input.
      flag: name of the flag, for error messages.

    Raises:
      ValueError: if the file does not exist or cannot be parsed.
    """
    if name == STANDARD:
        yield Source(name, read_json_lines(open_standard_input()), None, None, None)
        return
    path = Path(name)
    if path.suffix not in READERS:
        known = ", ".join(READERS)
        raise ValueError(f"{flag} is {name}; it must end in one of {known}, or be -")
    if not path.is_file():
        raise ValueError(f"{flag} is {name}; the file does not exist")
    with path.open("rb") as file:
        digest, num_lines = _scan(file)
        num_bytes = file.tell()
        file.seek(0)
        yield Source(name, _questions(name, path.suffix, file), num_bytes, num_lines, digest)


def _scan(file: BinaryIO) -> tuple[str, int]:
    """Reads a file to its end; returns the digest of the content and the number of its lines."""
    digest, num_lines, last = hashlib.sha256(), 0, b"\n"
    while block := file.read(2**20):
        digest.update(block)
        num_lines += block.count(b"\n")
        last = block[-1:]
    return digest.hexdigest()[:16], num_lines + (last != b"\n")


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
    """Opens standard input for reading in a thread; the file is never closed.

    Closing it would wait for the thread, which may wait for input forever. For the same reason, the
    thread must not read from `sys.stdin`, which Python closes at exit.
    """
    return open(0, "rb", closefd=False)
