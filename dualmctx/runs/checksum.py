"""Checksums of files that are written once; the file that lists them shows their damage."""

import zlib
from pathlib import Path
from typing import Any

from dualmctx.errors import UserError

_BLOCK = 2**20


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
