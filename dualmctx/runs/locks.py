"""Lock files that allow one writer per output.

The locks are taken with `flock`: the system releases a lock when its process ends, even if it is
killed. A leftover lock file locks nothing and is reused. Do not remove a lock file by hand while a
process holds it.
"""

import contextlib
import datetime
import errno
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import make_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl: Any = None

LOCK = ".lock"
"""The name of the lock file in a folder."""
# Errors of file systems without locks.
_UNSUPPORTED = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS}
# The holder may just have been killed, or may not have written its name yet.
_ATTEMPTS, _SECONDS_BETWEEN = 5, 0.1


def lock_beside(file: Path) -> Path:
    """Returns the lock file of an output that is a single file: `.NAME.lock` in its folder."""
    # All links to a file must share one lock file.
    file = file.resolve()
    return file.with_name(f".{file.name}{LOCK}")


@contextlib.contextmanager
def locked(file: Path, output: Path) -> Iterator[None]:
    """Holds a lock while the body runs.

    If the file system or the platform has no locks, a warning is printed on standard error, and
    nothing is locked.

    Args:
      file: the lock file. It and its folder are created if needed. They are removed afterwards,
        the folder only if it is empty.
      output: the protected file or folder, for messages.

    Raises:
      ValueError: if another process holds the lock; the message gives its host, its id and the time
        at which it took the lock.
    """
    file = file.absolute()
    created = [folder for folder in file.parents if not folder.exists()]
    try:
        descriptor = _acquire(file, output)
        try:
            yield
        finally:
            # Remove the file before the lock is released: a waiting process notices and retries.
            with contextlib.suppress(OSError):
                if _is_current(file, descriptor):
                    file.unlink()
            os.close(descriptor)
    finally:
        with contextlib.suppress(OSError):
            for folder in created:
                folder.rmdir()


def _acquire(file: Path, output: Path) -> int:
    """Returns the descriptor of the lock file; the lock is held while it is open."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_SECONDS_BETWEEN)
        descriptor = _open(file)
        try:
            problem = _flock(descriptor)
            if problem == errno.EWOULDBLOCK:
                holder = _read_holder(descriptor)
            elif problem in _UNSUPPORTED:
                warning = "make sure that no other process writes there"
                print(
                    f"{output} cannot be locked ({os.strerror(problem)}); {warning}",
                    file=sys.stderr,
                )
                return descriptor
            elif _is_current(file, descriptor):
                _write_holder(descriptor)
                return descriptor
            else:
                holder = "another process"
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise UserError(
        f"{output} is being written by {holder}; wait for it, stop it, or choose another output"
    )


def _open(file: Path) -> int:
    for _ in range(_ATTEMPTS):
        # Another process may have just removed the folder.
        with contextlib.suppress(FileNotFoundError):
            make_folder(file.parent)
            return os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    # The folder exists, but files cannot be created in it, as in /proc.
    return os.open(file, os.O_RDWR | os.O_CREAT, 0o666)


def _flock(descriptor: int) -> int:
    """Tries to lock; returns 0 or an error number: `EWOULDBLOCK` if another process holds it."""
    if fcntl is None:
        return errno.ENOSYS
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return errno.EWOULDBLOCK
    except OSError as error:
        # ESTALE on NFS: another machine removed the file.
        if error.errno in _UNSUPPORTED | {errno.ESTALE}:
            return int(error.errno or 0)
        raise
    return 0


def _is_current(file: Path, descriptor: int) -> bool:
    """Returns whether the opened file is still the lock file."""
    try:
        opened = os.fstat(descriptor)
        return opened.st_nlink > 0 and os.path.samestat(opened, file.stat())
    except OSError:
        return False


def _write_holder(descriptor: int) -> None:
    since = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    holder = {"host": socket.gethostname(), "process": os.getpid(), "since": since}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode() + b"\n", 0)


def _read_holder(descriptor: int) -> str:
    """Describes the process that holds the lock."""
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {holder['process']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
