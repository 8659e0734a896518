"""Standard streams of a command, without errors after their readers have closed them."""

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, TextIO, cast

from dualmctx.console import PrintableStream, printable, unfiltered


class Output(io.FileIO):
    """Standard output or standard error, without errors after its reader has closed it.

    Attributes:
      is_closed: whether a write failed because nothing reads the stream any more.
    """

    def __init__(self, descriptor: int, *, stops: bool) -> None:
        """Wraps a file descriptor; if `stops`, a closed reader stops the command like SIGTERM."""
        super().__init__(descriptor, "w", closefd=False)
        self.is_closed = False
        self._stops, self._has_failed = stops, False

    def write(self, data: Any, /) -> Any:
        """Writes; does nothing after the first error. May be called from any thread.

        Raises:
          OSError: if a stream that stops the command cannot be written although its reader is
            open, for example because the disk is full.
        """
        if self._has_failed:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except BrokenPipeError:
            self._has_failed = self.is_closed = True
            if self._stops and callable(signal.getsignal(signal.SIGTERM)):
                # A real signal wakes the main thread. A shell's background job ignores SIGINT.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            return memoryview(data).nbytes
        except OSError as error:
            self._has_failed = True
            if self._stops:
                error.filename = "standard output"
                raise
            return memoryview(data).nbytes


class Streams(NamedTuple):
    """The state of standard output.

    Attributes:
      output: the wrapped standard output; `None` if it was replaced before, as in tests.
    """

    output: Output | None

    @property
    def is_closed(self) -> bool:
        """Whether nothing reads standard output any more."""
        return self.output is not None and self.output.is_closed


@contextlib.contextmanager
def standard_streams() -> Iterator[Streams]:
    """Wraps `sys.stdout` and `sys.stderr`.

    Standard error, and standard output if it is a terminal, get printable text only. Closed
    descriptors are opened first: otherwise the next file would take their number, and messages of
    the C++ runtime would go into it.

    Yields:
      The state of standard output.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    before = sys.stdout, sys.stderr
    output = None
    if sys.stdout is sys.__stdout__:
        output = Output(1, stops=True)
        sys.stdout = _text(output, before[0])
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(Output(2, stops=False), before[1])
    if sys.stdout is not None and sys.stdout.isatty():
        sys.stdout = cast(TextIO, PrintableStream(sys.stdout))
    if sys.stderr is not None:
        sys.stderr = cast(TextIO, PrintableStream(sys.stderr))
    try:
        yield Streams(output)
    finally:
        sys.stdout, sys.stderr = before


def is_terminal() -> bool:
    """Returns whether standard output is a terminal."""
    return unfiltered(sys.stdout).isatty()


def write_standard(lines: bytes) -> None:
    """Writes lines of JSON to standard output and flushes it; on a terminal, as printable text."""
    if is_terminal():
        lines = printable(lines.decode(), "\n").encode()
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()


def _text(output: Output, before: TextIO | None) -> TextIO:
    """Returns a text stream with the settings of the former one, which is `None` if closed."""
    if before is not None:
        before.flush()
    is_terminal = output.isatty()
    return io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=getattr(before, "encoding", "utf-8"),
        errors=getattr(before, "errors", "backslashreplace"),
        line_buffering=is_terminal or not output._stops,
        write_through=getattr(before, "write_through", False),
    )
