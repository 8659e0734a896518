"""The process of a command: its standard streams, the log of orbax, garbage collections."""

import contextlib
import gc
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO, cast

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

        Raises an error of the disk, for example if it is full, in a stream that stops the command.
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


@contextlib.contextmanager
def standard_streams() -> Iterator[Output]:
    """Wraps `sys.stdout` and `sys.stderr`.

    Standard error, and standard output if it is a terminal, get printable text only. Closed
    descriptors are opened first: otherwise the next file would take their number, and messages of
    the C++ runtime would go into it.

    Yields:
      The new standard output; it is not used if `sys.stdout` was replaced before, as in tests.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    before = sys.stdout, sys.stderr
    output = Output(1, stops=True)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(output, before[0])
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(Output(2, stops=False), before[1])
    if sys.stdout is not None and sys.stdout.isatty():
        sys.stdout = cast(TextIO, PrintableStream(sys.stdout))
    if sys.stderr is not None:
        sys.stderr = cast(TextIO, PrintableStream(sys.stderr))
    try:
        yield output
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


_OBJECTS_PER_COLLECTION = 1_000_000
# tensorstore, the library of orbax, raises this for each array in progress after one failed.
_CLOSED = "Event loop is closed"
# The end of each error of tensorstore.
_SPEC = "[tensorstore_spec="


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Makes garbage collections rare, and makes them skip the objects that exist already.

    Rows consist of many small objects without cycles. By default, Python collects garbage after
    every 700 of them and often visits all objects of JAX, which takes longer than making the rows.
    The settings apply to the whole process, so only a command may use this, and only once at a
    time.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


@contextlib.contextmanager
def silence_orbax() -> Iterator[None]:
    """Hides the log of orbax, and the errors that Python prints for each array in progress.

    `dualmctx.runs.checkpoint` reports failures itself. orbax also writes to its log in threads that
    save in the background. Python may print the errors of dropped tasks long after the failure.
    """
    orbax, asyncio, hook = (
        logging.getLogger("absl"),
        logging.getLogger("asyncio"),
        sys.unraisablehook,
    )
    level = orbax.level

    def report(raised: Any) -> None:
        if str(raised.exc_value) != _CLOSED:
            hook(raised)

    orbax.setLevel(logging.CRITICAL)
    asyncio.addFilter(_is_of_another_task)
    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = hook
        asyncio.removeFilter(_is_of_another_task)
        orbax.setLevel(level)


def _is_of_another_task(record: logging.LogRecord) -> bool:
    """Returns whether a record is not about a task of tensorstore."""
    error = record.exc_info[1] if record.exc_info else None
    return _SPEC not in str(error)
