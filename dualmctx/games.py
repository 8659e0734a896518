"""The package `games`, under a name that a `games` package or module of yours does not hide.

`from dualmctx import games` gives the same functions and classes as `import games`. The package
itself imports `games`, so it cannot be used while another one comes first in `sys.path`.

Raises:
  ImportError: if another package or module named `games` comes first.
"""

import importlib.util
from pathlib import Path

_OWN = Path(__file__).resolve().parents[1] / "games" / "__init__.py"


def _find() -> str | None:
    """Returns the file that `import games` runs, without running it."""
    try:
        spec = importlib.util.find_spec("games")
    except ValueError:  # a module that was put into `sys.modules` by hand
        return "a module without a file"
    return spec and (spec.origin or "a folder without __init__.py")


def _require_own() -> None:
    found = _find()
    # Without a file, as in an archive, nothing can be compared.
    if _OWN.exists() and (found is None or Path(found).resolve() != _OWN):
        raise ImportError(
            f"{found} hides the package games of dualmctx ({_OWN.parent}); rename it, or run the "
            "command in another folder",
            name="games",
        )


_require_own()

from games import *  # noqa: E402, F403
from games import __all__ as __all__  # noqa: E402
