"""Writes a recording and its viewer as one HTML file, which needs no server and no network."""

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from dualmctx.pages import SHARED_STYLE, bundle_modules, module_variable

_FOLDER = Path(__file__).parent / "static"
_MAIN = "viewer.js"
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
{SHARED_STYLE.read_text(encoding="utf-8")}
{(_FOLDER / "viewer.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<main id="viewer"></main>
<script type="application/json" id="recording">{data}</script>
<script>
"use strict";
{bundle_modules(_FOLDER, _MAIN)}
{module_variable(_MAIN)}.startViewer(
  document.getElementById("viewer"),
  JSON.parse(document.getElementById("recording").textContent),
);
</script>
</body>
</html>
"""
