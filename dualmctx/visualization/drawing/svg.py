"""Draws a diagram as SVG."""

from collections.abc import Iterator
from typing import Any

import svgwrite

from dualmctx.visualization.drawing.board_svg import board_size, draw_board
from dualmctx.visualization.drawing.diagram import Box, Diagram, explain_borders, printable
from dualmctx.visualization.drawing.geometry import (
    BELOW_BOARD,
    LABEL,
    MARGIN,
    PADDING,
    Point,
    cut,
    height_of,
    label_of,
    measure,
    name_of,
    text_length,
)
from dualmctx.visualization.drawing.svg_style import LINE, Theme, root_class, style_sheet

# The part of a title or of a line of the legend that is drawn.
_MAX_LINE = 110


def to_svg(diagram: Diagram, theme: Theme = "auto") -> str:
    """Draws a diagram.

    Every box is a group with its name in `id`, and its description in `<title>`, which browsers
    show when the mouse is over the box. The same diagram gives the same text.

    Returns:
      An SVG document that needs no other file.
    """
    placed = measure(diagram)
    lines = (diagram.title, *diagram.legend, *explain_borders(diagram))
    heading = [cut(line, _MAX_LINE) for line in lines if line]
    top = len(heading) * LINE + (8 if heading else 0)
    width = max(placed.width, *map(text_length, heading), 0) + 2 * MARGIN
    height = placed.height + top + 2 * MARGIN
    drawing = svgwrite.Drawing(size=(f"{width:g}", f"{height:g}"), debug=False)
    drawing.viewbox(0, 0, round(width, 2), round(height, 2))
    drawing.attribs |= {"class": root_class(theme), "role": "img"}
    drawing.set_desc(title=cut(diagram.title, _MAX_LINE) or "search tree")
    drawing.defs.add(drawing.style(style_sheet(theme)))
    drawing.add(drawing.rect((0, 0), ("100%", "100%"), class_="page"))
    for line, text in enumerate(heading):
        name = "title" if line == 0 and diagram.title else "legend"
        drawing.add(_text(drawing, text, (MARGIN, MARGIN + (line + 0.5) * LINE), name))
    tree = drawing.g(transform=f"translate({(width - placed.width) / 2:g},{top + MARGIN})")
    for box, points in zip(diagram.boxes, placed.edges, strict=True):
        if points is not None:
            tree.add(_edge(drawing, box, points))
    for box, corner in zip(diagram.boxes, placed.corners, strict=True):
        tree.add(_group(drawing, box, corner, placed.box))
    drawing.add(tree)
    return drawing.tostring()


def _edge(drawing: Any, box: Box, points: tuple[Point, ...]) -> Any:
    first, begin, *curve, last = (f"{x:g},{y:g}" for x, y in points)
    name = "edge best" if box.is_best else f"edge {box.style}"
    width = 3.0 if box.is_best else 1 + 4 * box.weight
    path = f"M{first} L{begin} C{' '.join(curve)} L{last}"
    return drawing.path(path, class_=name, style=f"stroke-width: {width:.2f}")


def _group(drawing: Any, box: Box, corner: Point, width: float) -> Any:
    """Draws a box with its label; the corner is the upper middle of the label."""
    group = drawing.g(id=box.name, class_=f"node {box.style}")
    group.set_desc(title=printable(box.title))
    x, y = corner
    for text in _label(drawing, box, (x, y + LABEL / 2)):
        group.add(text)
    y += LABEL
    for rectangle in _border(drawing, box, (x - width / 2, y), (width, height_of(box))):
        group.add(rectangle)
    y += PADDING
    if box.picture is not None:
        size = board_size(box.picture)
        group.add(draw_board(drawing, box.picture, x - size.width / 2, y))
        y += size.height + BELOW_BOARD
    for line in box.lines:
        group.add(_text(drawing, line, (x, y + LINE / 2), "line", "middle"))
        y += LINE
    return group


def _label(drawing: Any, box: Box, middle: Point) -> Iterator[Any]:
    """Draws the name of the move in bold letters, and the note beside it."""
    name = name_of(box)
    left = middle[0] - text_length(label_of(box)) / 2
    if name:
        yield _text(drawing, name, (left, middle[1]), "move best" if box.is_best else "move")
    if box.note:
        yield _text(drawing, box.note, (left + text_length(f"{name}  "), middle[1]), "note")


def _border(drawing: Any, box: Box, corner: Point, size: Point) -> Iterator[Any]:
    if box.style == "summary":
        return
    yield drawing.rect(corner, size, rx=5, class_=f"box {box.style}")
    if box.style == "final":
        inner = (corner[0] + 3, corner[1] + 3), (size[0] - 6, size[1] - 6)
        yield drawing.rect(*inner, rx=3, class_="inner")


def _text(drawing: Any, text: str, place: Point, name: str, anchor: str = "start") -> Any:
    style = f"text-anchor: {anchor}; dominant-baseline: central"
    element = drawing.text(printable(text), insert=place, class_=name, style=style)
    element.attribs["xml:space"] = "preserve"
    return element
