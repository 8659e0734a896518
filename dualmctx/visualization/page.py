"""Writes a recording and its viewer as one HTML file, which needs no server and no network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dualmctx.pages import SHARED_STYLE
from dualmctx.reports.page import Viewer, render_page

_FOLDER = Path(__file__).parent / "static"


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
    viewer = Viewer(_FOLDER / "viewer.js", recording, "recording")
    return render_page(title, [SHARED_STYLE, _FOLDER / "viewer.css"], viewer)
