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

    Both formats may hold checksums, which are then checked. A file of gzip always has them. A file
    of Zstandard has them if this package wrote it; programs of others can leave them out.

    Raises:
      UserError: if the content is damaged, truncated or empty, also while it is read.
    """
    compression = split_suffix(path)[1]
    if compression and path.stat().st_size == 0:
        # The reader of gzip takes an empty file for an empty content.
        raise UserError(f"{path} cannot be decompressed: it is empty")
    try:
        with _open(path, "rb", compression) as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile, *_zstandard_errors(compression)) as error:
        raise UserError(f"{path} cannot be decompressed: {error}") from None


@contextlib.contextmanager
def open_compressed(path: Path, compression: str) -> Iterator[BinaryIO]:
    """Opens a file for writing, with checksums; equal content gives equal bytes.

    Args:
      path: the file, with any suffix.
      compression: suffix of the compression, as in `split_suffix`.
    """
    with _open(path, "wb", compression) as file:
        yield file


@contextlib.contextmanager
def _open(path: Path, mode: str, compression: str) -> Iterator[Any]:
    if compression == ZSTANDARD:
        zstd = _import_zstandard()
        options = {zstd.CompressionParameter.checksum_flag: 1} if mode == "wb" else None
        with zstd.open(path, mode, options=options) as file:
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
