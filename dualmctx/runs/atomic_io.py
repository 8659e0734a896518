"""Files that are complete or not there at all, whenever the process is killed."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

_DRAFT = ".new"


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields the path of a draft beside a file, which replaces the file at the end.

    Where what is done with the draft fails, the file stays as it was and the draft is removed.
    """
    draft = path.with_name(f".{path.name}{_DRAFT}")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        # A full disk is told of without the file.
        if error.errno is not None:
            error.filename = error.filename or str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


def is_draft(path: Path) -> bool:
    """Tells whether a file is a draft, which only a kill leaves behind."""
    return path.name.startswith(".") and path.name.endswith(_DRAFT)


def atomic_write_text(path: Path, text: str) -> None:
    """Writes a text in UTF-8 to a file, which holds either this or what it held before."""
    with atomic_path(path) as draft:
        draft.write_text(text, encoding="utf-8")
