"""Atomic writes: a file is replaced completely or not at all, even if the process is killed."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

_DRAFT = ".new"


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields the path of a draft in the same folder; the draft replaces the file at the end.

    If the body raises, the file stays unchanged and the draft is removed.
    """
    draft = path.with_name(f".{path.name}{_DRAFT}")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        # The error of a full disk does not name the file.
        if error.errno is not None:
            error.filename = error.filename or str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


def is_draft(path: Path) -> bool:
    """Returns whether a file is a draft; only a killed process leaves one behind."""
    return path.name.startswith(".") and path.name.endswith(_DRAFT)


def atomic_write_text(path: Path, text: str) -> None:
    """Writes text to a file atomically, in UTF-8."""
    with atomic_path(path) as draft:
        draft.write_text(text, encoding="utf-8")
