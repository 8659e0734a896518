"""Text files: their compression, their encodings, and their lines in bounded memory."""

import contextlib
import gzip
import hashlib
import importlib
import io
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dualmctx.errors import UserError

GZIP, ZSTANDARD = ".gz", ".zst"
# Python has a module for Zstandard from 3.14 on; the package has the same module for older ones.
_MODULES = ("compression.zstd", "backports.zstd")
MAX_LINE_LENGTH = 2**20
"""Maximum length of a line in bytes."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Programs of DOS end a file with Ctrl-Z.
_BLANK = b" \t\r\n\v\f\x1a"


def split_suffix(path: Path) -> tuple[str, str]:
    """Returns the suffixes of format and compression in lower case, such as `.csv` and `.gz`."""
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


class TextFile(NamedTuple):
    """A file of text, which has been read once.

    Attributes:
      path: the file.
      suffix: the suffix of its format, such as `.csv`.
      num_bytes: its size, after decompression.
      num_lines: an upper bound of the number of its lines.
      digest: digest of its content, after decompression.
    """

    path: Path
    suffix: str
    num_bytes: int
    num_lines: int
    digest: str

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Opens the file for reading: decompressed, and UTF-16 and UTF-32 as UTF-8."""
        with open_decompressed(self.path) as file:
            yield as_utf8(file)


def find_file(path: Path, name: str, suffixes: Collection[str], others: str = "") -> TextFile:
    """Checks that a file can be read, and reads it to its end.

    Args:
      path: the file.
      name: the name of the argument, for messages.
      suffixes: the possible suffixes of the format; one for compression may follow.
      others: other possible values than files, for messages.

    Raises:
      UserError: if the file does not exist, has another suffix, or cannot be decompressed.
    """
    suffix, _ = split_suffix(path)
    if suffix not in suffixes:
        raise UserError(
            f"{name} is {path}; it must end in one of {', '.join(suffixes)}{others}; {GZIP} and "
            f"{ZSTANDARD} may follow"
        )
    if not path.is_file():
        problem = "it is a folder; name its files" if path.is_dir() else "the file does not exist"
        raise UserError(f"{name} is {path}; {problem}")
    require_compression(path)
    digest, num_bytes, num_lines, last = hashlib.sha256(), 0, 0, b"\n"
    with open_decompressed(path) as file:
        while block := file.read(2**20):
            digest.update(block)
            num_bytes += len(block)
            # A carriage return may end a line, too.
            num_lines += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
            last = block[-1:]
    num_lines += last != b"\n"
    return TextFile(path, suffix, num_bytes, num_lines, digest.hexdigest()[:16])


def decode(data: bytes) -> str:
    """Decodes UTF-8 or, if it is not valid, Windows-1252, which contains the older ISO 8859-1."""
    for encoding in ("utf-8", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            pass
    return data.decode("latin-1")


def as_utf8(file: BinaryIO) -> BinaryIO:
    """Returns a file with the same text; UTF-16 and UTF-32 become UTF-8.

    Args:
      file: a file at its beginning, which can be read from there again.
    """
    encoding = _wide_encoding(file.read(4))
    file.seek(0)
    return file if encoding is None else io.BufferedReader(_Recoded(file, encoding))


def _wide_encoding(start: bytes) -> str | None:
    """Returns the encoding of text whose characters have two or four bytes, by its first bytes."""
    if start in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return "utf-32"
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    # Without a byte order mark, one byte of the first ASCII character is zero.
    is_zero = tuple(byte == 0 for byte in start[:2])
    return {(False, True): "utf-16-le", (True, False): "utf-16-be"}.get(is_zero)  # pyright: ignore


class _Recoded(io.RawIOBase):
    """The text of a file in UTF-8."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._text = io.TextIOWrapper(file, encoding, errors="replace", newline="")
        self._rest = b""

    def readable(self) -> bool:
        """Returns true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the beginning of the buffer; returns the number of bytes, 0 at the end."""
        data = self._rest or self._text.read(2**16).encode()
        number = min(len(data), len(buffer))
        buffer[:number], self._rest = data[:number], data[number:]
        return number


class Line(NamedTuple):
    """A line that is not blank.

    Attributes:
      number: its number, from 1.
      data: its bytes, without white space and Ctrl-Z around them.
      error: the reason why it cannot be read; `None` if it can.
      end: byte offset of its end in the file.
    """

    number: int
    data: bytes
    error: str | None
    end: int

    def decode(self) -> str:
        """Returns the text of the line.

        Raises:
          ValueError: if the line cannot be read, or is not UTF-8.
        """
        if self.error is not None:
            raise UserError(self.error)
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise UserError(f"byte {error.start + 1} is not UTF-8") from None


def read_lines(file: BinaryIO) -> Iterator[Line]:
    """Yields lines that are not blank; skips a line that is too long, in bounded memory.

    A line ends with a line feed, a carriage return, or both. Byte order marks at the beginnings of
    lines, where files were joined, are left out.
    """
    number = end = 0
    rest, is_long, data = b"", False, b"\n"
    while data:
        data = file.readline(MAX_LINE_LENGTH + 1)
        pieces = (rest + data).splitlines(keepends=True)
        # A line feed may follow the last carriage return.
        is_open = data and pieces and not pieces[-1].endswith(b"\n")
        rest = pieces.pop() if is_open else b""
        for piece in pieces:
            number, end = number + 1, end + len(piece)
            if is_long or len(piece) > MAX_LINE_LENGTH:
                yield _long_line(number, end)
            elif text := piece.removeprefix(_BYTE_ORDER_MARK).strip(_BLANK):
                yield Line(number, text, None, end)
            is_long = False
        if len(rest) > MAX_LINE_LENGTH and not rest.endswith(b"\r"):
            rest, is_long, end = b"", True, end + len(rest)
    if is_long:
        yield _long_line(number + 1, end)


def _long_line(number: int, end: int) -> Line:
    return Line(number, b"", f"the line is longer than {MAX_LINE_LENGTH} bytes", end)
