"""The versions that files hold: of their format, and of the package that wrote them."""

from pathlib import Path
from typing import Any

from dualmctx.errors import UserError
from dualmctx.version import __version__

FORMAT_VERSION = 1
"""The version of the format of `config.json`, exported networks and `tournament.json`.

It is raised when an older version of the package could not read a file correctly."""
_FORMAT, _PACKAGE = "format_version", "package_version"


def with_versions(content: dict[str, Any]) -> dict[str, Any]:
    """Returns the content of a file with the versions of this package."""
    return {_FORMAT: FORMAT_VERSION, _PACKAGE: __version__} | content


def without_versions(content: dict[str, Any], file: Path | str) -> dict[str, Any]:
    """Checks the version of the format of a file, and returns the content without versions.

    Files of the first versions of the package have no versions; they are accepted.

    Args:
      content: the content of the file.
      file: the file, for the message.

    Raises:
      ValueError: if the file has a format of another version; the message names the version of the
        package that wrote it.
    """
    found = content.get(_FORMAT, FORMAT_VERSION)
    if found != FORMAT_VERSION:
        writer = content.get(_PACKAGE)
        other = "another dualmctx" if writer is None else f"dualmctx {writer}"
        raise UserError(
            f"{file} has format version {found}, written by {other}; dualmctx {__version__} reads "
            f"version {FORMAT_VERSION}: use {other}"
        )
    return {name: x for name, x in content.items() if name not in (_FORMAT, _PACKAGE)}
