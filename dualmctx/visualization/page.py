"""Writes a recording and its viewer as one HTML file, which needs no server and no network."""

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from dualmctx.errors import UserError

_FOLDER = Path(__file__).parent / "static"
_MAIN = "viewer.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(
    r"^export (?P<rest>(?:async )?(?:function\*?|const|let|class) (?P<name>\w+))", re.MULTILINE
)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
# A file from a stranger runs only its own script and loads nothing.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def recording_page(recording: Mapping[str, Any] | None, title: str = "Recorded search") -> str:
    """Returns a page that shows a recording.

    Args:
      recording: as in the message `recording` of the web application. None leaves its place empty:
        the element of the id `recording` then contains the JSON value null, which the Trees view
        replaces.
      title: the title of the page.

    Returns:
      HTML. Numbers that are NaN or infinite are null in its JSON.
    """
    # "<" would be able to end the element of the script.
    data = orjson.dumps(recording).decode().replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{html.escape(title)}</title>
<style>
{(_FOLDER / "viewer.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<main id="viewer"></main>
<script type="application/json" id="recording">{data}</script>
<script>
"use strict";
{bundle_modules(_FOLDER, _MAIN)}
{_variable(_MAIN)}.startViewer(
  document.getElementById("viewer"),
  JSON.parse(document.getElementById("recording").textContent),
);
</script>
</body>
</html>
"""


def bundle_modules(folder: Path, main: str) -> str:
    """Returns an ES module and all modules that it imports as one script without imports.

    Each module becomes a function that is called once and returns its exports. Modules may import
    by `import {a, b} from "./name.js";`, on one line, and export declarations only.

    Args:
      folder: the folder of the modules.
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
        source = (folder / name).read_text(encoding="utf-8")
        for _, imported in _IMPORT.findall(source):
            add(imported, (*importers, name))
        scripts[name] = _to_function(name, source)

    add(main, ())
    return "\n".join(scripts.values())


def _to_function(name: str, source: str) -> str:
    names = [match["name"] for match in _EXPORT.finditer(source)]
    body = _IMPORT.sub(lambda match: f"const {{{match[1]}}} = {_variable(match[2])};\n", source)
    body = _EXPORT.sub(lambda match: match["rest"], body)
    left = _LEFT.search(body)
    if left is not None or "</script" in body:
        reason = left[0] if left is not None else "</script"
        raise UserError(f"{name}: {reason!r} cannot be part of a page")
    return f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {', '.join(names)} }};\n}})();"


def _variable(name: str) -> str:
    return "module_" + re.sub(r"\W", "_", name)
