"""Durable writes, and checksums of files.

A file is replaced completely or not at all, even by a kill or a power cut. The checksums of files
that are written once show their later damage.
"""

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualmctx.errors import UserError

_DRAFT = ".new"
_BLOCK = 2**20


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields the path of a draft in the same folder; the draft replaces the file at the end.

    The draft is on the disk before it takes the name of the file, and the name is on the disk when
    the function returns. If the body raises, the file stays unchanged and the draft is removed.
    """
    draft = path.with_name(f".{path.name}{_DRAFT}")
    try:
        with naming(path, draft):
            yield draft
            sync(draft)
            draft.replace(path)
            sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def require_new(path: Path) -> None:
    """Checks that a file which a command writes does not exist.

    Raises:
      UserError: if it exists.
    """
    if path.exists():
        raise UserError(f"{path} exists; choose another file")


def is_draft(path: Path) -> bool:
    """Returns whether a file is a draft; only a killed process leaves one behind."""
    return path.name.startswith(".") and path.name.endswith(_DRAFT)


def atomic_write_text(path: Path, text: str) -> None:
    """Writes text to a file atomically, in UTF-8."""
    with atomic_path(path) as draft:
        draft.write_text(text, encoding="utf-8")


def make_folder(path: Path) -> None:
    """Creates a folder with its parents; their names are on the disk when the function returns."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    with naming(path):
        path.mkdir(parents=True, exist_ok=True)
        for folder in reversed(missing):
            sync(folder.parent)


def sync(path: Path) -> None:
    """Waits until a file, or the list of files of a folder, is on the disk.

    Systems that cannot open a folder, such as Windows, keep its list by themselves.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def naming(path: Path, draft: Path | None = None) -> Iterator[None]:
    """Adds the path of a file to errors, as of a full disk, that name no file, or its draft."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(draft), draft):
            error.filename = str(path)
            del error.filename2
        raise


def checksum_of(path: Path) -> dict[str, Any]:
    """Returns the size of a file in bytes and the CRC-32 of its content, as JSON values."""
    size = crc = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            size, crc = size + len(block), zlib.crc32(block, crc)
    return {"size": size, "crc": f"{crc:08x}"}


def require_unchanged(path: Path, checksum: Any, remedy: str) -> None:
    """Checks that a file is as it was written.

    Args:
      path: the file.
      checksum: the result of `checksum_of` at that time.
      remedy: the end of the message.

    Raises:
      UserError: if the file is missing or has another content.
    """
    if not path.exists():
        raise UserError(f"{path} is missing; {remedy}")
    if checksum_of(path) != checksum:
        raise UserError(f"{path} was changed after it was written; {remedy}")
