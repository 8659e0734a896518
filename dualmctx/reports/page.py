"""HTML pages of one file each, which need no server and load nothing.

`page.html.j2` is the frame of all pages. The template of a report extends it by the block
`content`; a page without a template has the element of a viewer alone.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import orjson

from dualmctx.pages import bundle_modules, module_variable
from dualmctx.reports.numbers import show_number

_FRAME = Path(__file__).with_name("page.html.j2")


class Viewer(NamedTuple):
    """A script that shows data in the element of the id `viewer`.

    Attributes:
      main: the file of its ES module, which exports `startViewer(element, data)`.
      data: the data; NaN and infinite numbers become null.
      data_id: the id of the element with the data.
    """

    main: Path
    data: Any
    data_id: str


def render_page(
    title: str,
    styles: Sequence[Path],
    viewer: Viewer | None = None,
    *,
    template: Path = _FRAME,
    **values: Any,
) -> str:
    """Returns HTML. A file from a stranger runs only its own script.

    Args:
      title: the title.
      styles: files of CSS.
      viewer: the script of the page; `None` for none.
      template: a Jinja template that extends `page.html.j2`.
      **values: variables of the template. Text is escaped, and a `Table` becomes a table.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, _FRAME.parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": show_number, "inline_png": _inline_png}
    values |= {"title": title, "viewer": viewer}
    values["style"] = "\n".join(path.read_text(encoding="utf-8") for path in styles)
    if viewer:
        # "<" would be able to end the element of the script.
        values["data"] = orjson.dumps(viewer.data).decode().replace("<", "\\u003c")
        values["script"] = bundle_modules(viewer.main.parent, viewer.main.name)
        values["module"] = module_variable(viewer.main.name)
    return environment.get_template(template.name).render(values)


def _inline_png(picture: bytes) -> str:
    """Returns a PNG picture as a data URL, for the source of an image."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"
