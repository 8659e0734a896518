"""Reads arrays of `.npz` files that may be damaged or hostile.

NumPy's own reader allocates any size that a header declares, and takes the last of two members with
the same name. This reader checks all headers first. It refuses pickles, compressions that NumPy
does not use, duplicate names, and arrays whose size differs from the size of their archive member.
"""

import contextlib
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from dualmctx.errors import UserError

_SUFFIX = ".npy"
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Header(NamedTuple):
    """The header of an array.

    Attributes:
      member: the member of the archive.
      shape: the shape of the array.
      dtype: its dtype; never an object dtype.
      is_fortran: whether the first axis changes fastest.
      start: the offset of the data in the unpacked member, in bytes.
    """

    member: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype
    is_fortran: bool
    start: int

    @property
    def size(self) -> int:
        """The size of the array's data, in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


class Archive(NamedTuple):
    """An open `.npz` file.

    Attributes:
      file: the zip archive.
      headers: the headers of its arrays, by name.
    """

    file: zipfile.ZipFile
    headers: dict[str, Header]

    def read(self, name: str) -> np.ndarray:
        """Reads an array; its size is the one in its header.

        Raises:
          KeyError: if there is no such array.
          ValueError, zipfile.BadZipFile, zlib.error: if it is damaged.
        """
        header = self.headers[name]
        flat = np.empty(math.prod(header.shape), header.dtype)
        with self.file.open(header.member) as stream:
            stream.read(header.start)
            _read_into(stream, flat.view(np.uint8).data)
        return flat.reshape(header.shape, order="F" if header.is_fortran else "C")


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Opens an `.npz` file and reads the headers of its arrays, but no data.

    Raises:
      ValueError, zipfile.BadZipFile, zlib.error: if the file is damaged or not an `.npz` file, if a
        name occurs twice, or if an array is pickled or its size differs from that of its member.
      OSError: if the file cannot be read.
    """
    with zipfile.ZipFile(path) as file:
        headers: dict[str, Header] = {}
        for member in file.infolist():
            name = member.filename.removesuffix(_SUFFIX)
            if name in headers:
                raise UserError(f"it contains {name} twice")
            headers[name] = _read_header(file, member, name)
        yield Archive(file, headers)


def _read_header(file: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Header:
    if member.compress_type not in _COMPRESSIONS or member.flag_bits & 1:
        raise UserError(f"{name} has a compression that NumPy does not use")
    with file.open(member) as stream:
        # The reader for version 1.0 limits the length of the header.
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise UserError(f"{name} has a header of version {version}")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        start = stream.tell()
    if dtype.hasobject:
        raise UserError(f"{name} is an array of Python objects, which is not read")
    if min(shape, default=0) < 0:
        raise UserError(f"{name} has the shape {shape}")
    header = Header(member, shape, dtype, is_fortran, start)
    num_stored = member.file_size - start
    if header.size != num_stored:
        raise UserError(
            f"{name} declares {header.size:,} bytes of data, but {num_stored:,} are stored"
        )
    return header


def _read_into(stream: IO[bytes], target: memoryview) -> None:
    """Fills a buffer with the rest of a member; zipfile checks the checksum at its end."""
    done = 0
    while done < len(target):
        data = stream.read(min(_CHUNK_BYTES, len(target) - done))
        if not data:
            raise UserError("it ends too early")
        target[done : done + len(data)] = data
        done += len(data)


_CHUNK_BYTES = 2**20
