"""Durable writes: a file is replaced completely or not at all, even by a kill or a power cut."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_DRAFT = ".new"


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
    """Adds the path of a file to errors that name no file, or name its draft.

    One of them is that of a full disk.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(draft), draft):
            error.filename = str(path)
            del error.filename2
        raise
