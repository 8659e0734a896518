"""JavaScript and CSS that the page of `dualmctx play`, recordings and reports share.

The folder `shared` has the drawing of boards, helpers for elements, texts, and the colours. A
recording and a report are single files: `bundle_modules` and `SHARED_STYLE` make the parts of them.
"""

import re
from pathlib import Path

from dualmctx.errors import UserError

__all__ = ("SHARED", "SHARED_STYLE", "bundle_modules", "module_variable")

SHARED = Path(__file__).parent / "shared"
"""The folder; the server of the page offers it as `/shared`."""
SHARED_STYLE = SHARED / "shared.css"

_IMPORT = re.compile(r'^import \{([^}]*)\} from "(?:\./|/shared/)([\w.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(
    r"^export (?P<rest>(?:async )?(?:function\*?|const|let|class) (?P<name>\w+))", re.MULTILINE
)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundle_modules(folder: Path, main: str) -> str:
    """Returns an ES module and all modules that it imports as one script without imports.

    Each module becomes a function that is called once and returns its exports, which are then in
    the variable `module_variable(name)`. Modules may export declarations only, and import by
    `import {a, b} from "./name.js";`, or from "/shared/name.js".

    Args:
      folder: the folder of the modules. A name that is missing there is that of a shared module.
      main: name of the module.

    Raises:
      ValueError: if a module has another form of import or export, or imports itself indirectly.
    """
    scripts: dict[str, str] = {}

    def add(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise UserError(f"the modules {' -> '.join((*importers, name))} import each other")
        if name in scripts:
            return
        path = folder / name
        source = (path if path.is_file() else SHARED / name).read_text(encoding="utf-8")
        for _, imported in _IMPORT.findall(source):
            add(imported, (*importers, name))
        scripts[name] = _to_function(name, source)

    add(main, ())
    return "\n".join(scripts.values())


def module_variable(name: str) -> str:
    """Returns the variable of a bundled script with the exports of a module."""
    return "module_" + re.sub(r"\W", "_", name)


def _to_function(name: str, source: str) -> str:
    names = [match["name"] for match in _EXPORT.finditer(source)]
    body = _IMPORT.sub(
        lambda found: f"const {{{found[1]}}} = {module_variable(found[2])};\n", source
    )
    body = _EXPORT.sub(lambda match: match["rest"], body)
    left = _LEFT.search(body)
    if left is not None or "</script" in body:
        reason = left[0] if left is not None else "</script"
        raise UserError(f"{name}: {reason!r} cannot be part of a page")
    exports = ", ".join(names)
    return f"const {module_variable(name)} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"
