"""Writes a page with the drawing of a diagram."""

import html

from dualmctx.visualization.drawing.diagram import Diagram, printable
from dualmctx.visualization.drawing.svg import to_svg
from dualmctx.visualization.drawing.svg_style import Theme, root_class, style_sheet

_SCHEMES = {"auto": "light dark", "light": "light", "dark": "dark"}


def to_html(diagram: Diagram, theme: Theme = "auto") -> str:
    """Returns a page that contains the drawing as SVG; wide drawings can be scrolled."""
    title = html.escape(printable(diagram.title) or "Search tree")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="{_SCHEMES[theme]}">
<title>{title}</title>
<style>
{style_sheet(theme)}
body {{ margin: 0; overflow: auto }}
svg {{ display: block; margin: auto }}
</style>
</head>
<body class="{root_class(theme)}">
{to_svg(diagram, theme)}
</body>
</html>
"""
