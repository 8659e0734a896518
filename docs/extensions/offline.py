"""Checks that the pages of the site load nothing from another place."""

import html.parser
import pathlib
from typing import Any

from sphinx.util import logging

_LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
_logger = logging.getLogger(__name__)


def setup(app: Any) -> dict[str, bool]:
    """Checks the pages after they are written."""
    app.connect("build-finished", _check_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class _Loaded(html.parser.HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects the address of one element."""
        given = dict(attrs)
        if tag == "link" and given.get("rel") not in ("stylesheet", "icon", "preload"):
            return
        self.addresses.append(given.get(_LOADED.get(tag, "")) or "")


def _check_pages(app: Any, failure: Exception | None) -> None:
    if failure or app.builder.format != "html":
        return
    for page in sorted(pathlib.Path(app.outdir).rglob("*.html")):
        loaded = _Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        for address in loaded.addresses:
            if address.startswith(("http:", "https:", "//")):
                _logger.warning("%s loads %s; the site must work offline", page, address)
