"""Compressed files: gzip and Zstandard, by the last suffix of the name."""

import contextlib
import gzip
import importlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dualmctx.errors import UserError

GZIP, ZSTANDARD = ".gz", ".zst"
# Python has a module for Zstandard from 3.14 on; the package has the same module for older ones.
_MODULES = ("compression.zstd", "backports.zstd")


def split_suffix(path: Path) -> tuple[str, str]:
    """Returns the suffix of the format and that of the compression, such as `.csv` and `.gz`.

    They are in lower case. The second one is empty for a file that is not compressed.
    """
    suffix = path.suffix.lower()
    if suffix not in (GZIP, ZSTANDARD):
        return suffix, ""
    return path.with_suffix("").suffix.lower(), suffix


def require_compression(path: Path) -> None:
    """Checks that the compression of a file can be read and written.

    Raises:
      ValueError: if it is Zstandard, and there is no module for it.
    """
    if split_suffix(path)[1] == ZSTANDARD:
        _import_zstandard()


@contextlib.contextmanager
def open_decompressed(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for reading; its content is decompressed.

    Raises:
      ValueError: if the content is damaged or truncated, also while it is read.
    """
    compression = split_suffix(path)[1]
    try:
        with _open(path, "rb", compression) as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile, *_zstandard_errors(compression)) as error:
        raise UserError(f"{path} cannot be decompressed: {error}") from None


@contextlib.contextmanager
def open_compressed(path: Path, compression: str) -> Iterator[BinaryIO]:
    """Opens a file for writing; equal content gives equal bytes.

    Args:
      path: the file, with any suffix.
      compression: suffix of the compression, as in `split_suffix`.
    """
    with _open(path, "wb", compression) as file:
        yield file


@contextlib.contextmanager
def _open(path: Path, mode: str, compression: str) -> Iterator[Any]:
    if compression == ZSTANDARD:
        with _import_zstandard().open(path, mode) as file:
            yield file
    elif compression == GZIP:
        # Without the name and the time, which a header of gzip may contain.
        with path.open(mode) as raw, gzip.GzipFile("", mode, fileobj=raw, mtime=0) as file:
            yield file
    else:
        with path.open(mode) as file:
            yield file


def _zstandard_errors(compression: str) -> tuple[type[Exception], ...]:
    return (_import_zstandard().ZstdError,) if compression == ZSTANDARD else ()


def _import_zstandard() -> Any:
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    raise UserError(
        'Zstandard is not installed; run pip install "dualmctx[zstd]", or use a file that ends in '
        f"{GZIP} or is not compressed"
    )
