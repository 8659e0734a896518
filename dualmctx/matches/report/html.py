"""HTML pages of reports: one file each, without links to other files.

`base.html.j2` has the frame and the style of a page; `parts.html.j2` has the macros for tables and
figures. The template of a report extends the former and imports the latter.
"""

import base64
from pathlib import Path
from typing import Any

import jinja2
from jinja2.utils import htmlsafe_json_dumps

from dualmctx.matches.report.layout import Table, split_columns
from dualmctx.runs.numbers import show_elo, show_interval, show_number

_FOLDER = Path(__file__).parent
# A table of this many characters fits 1,280 pixels, and the width of A4 paper in the printed size.
_WIDTH, _GAP, _LONGEST = 108, 3, 30


def fit_page(table: Table) -> list[Table]:
    """Splits a table into parts that fit the page on a screen and on paper."""
    return split_columns(table, _WIDTH, gap=_GAP, longest=_LONGEST)


def render_page(template: Path, **values: Any) -> str:
    """Renders a template and returns HTML.

    Args:
      template: a Jinja template, which extends `base.html.j2`.
      **values: the variables of the template. Their text is escaped.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, _FOLDER]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "compact_json": lambda value: htmlsafe_json_dumps(value, separators=(",", ":")),
        "elo": show_elo,
        "fit_page": fit_page,
        "interval": show_interval,
        "is_long": lambda cell: len(cell) > _LONGEST,
        "number": show_number,
    }
    return environment.get_template(template.name).render(values)


def inline_png(picture: bytes) -> str:
    """Returns a PNG picture as a data URL, for the source of an image."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"
