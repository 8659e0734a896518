"""Draws a diagram as SVG."""

import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

import svgwrite

from dualmctx.visualization.board_svg import board_size, draw_board
from dualmctx.visualization.diagram import Box, Diagram, children_of, explain_borders, printable
from dualmctx.visualization.layout import lay_out
from dualmctx.visualization.svg_style import CHARACTER, LINE, Theme, root_class, style_sheet

_MARGIN, _PADDING, _GAP = 16, 7, 14
# The part of a title or legend line, and of a move's name, that is drawn.
_MAX_LINE, _MAX_NAME = 110, 18


class _Sizes(NamedTuple):
    """Sizes that all boxes of a diagram share, in SVG units.

    Attributes:
      slot: the distance between the centres of neighbouring boxes.
      box: the width of a box.
      label: the height of the text above a box.
      body: the height of the highest box.
      gap: the height between rows, in which the edges are.
      top: the upper edge of the first row.
    """

    slot: float
    box: float
    label: float
    body: float
    gap: float
    top: float

    @property
    def row(self) -> float:
        """The distance between rows."""
        return self.label + self.body + self.gap


def to_svg(diagram: Diagram, theme: Theme = "auto") -> str:
    """Draws a diagram.

    Every box is a group with its name in `id`, and its description in `<title>`, which browsers
    show when the mouse is over the box. The same diagram gives the same text.

    Returns:
      An SVG document that needs no other file.
    """
    places = lay_out(children_of(diagram))
    heading = [x for x in (diagram.title, *diagram.legend, *explain_borders(diagram)) if x]
    columns = max(place.x for place in places)
    sizes = _measure(diagram, len(heading), columns)
    text_width = max((text_length(_cut(line, _MAX_LINE)) for line in heading), default=0)
    tree_width = columns * sizes.slot + max(sizes.slot, sizes.box)
    width = max(tree_width, text_width) + 2 * _MARGIN
    height = sizes.top + (max(p.depth for p in places) + 1) * sizes.row - sizes.gap + _MARGIN
    left = (width - columns * sizes.slot) / 2
    drawing = svgwrite.Drawing(size=(f"{width:g}", f"{height:g}"), debug=False)
    drawing.viewbox(0, 0, round(width, 2), round(height, 2))
    drawing.attribs |= {"class": root_class(theme), "role": "img"}
    drawing.set_desc(title=printable(diagram.title) or "search tree", desc="; ".join(heading[1:]))
    drawing.defs.add(drawing.style(style_sheet(theme)))
    drawing.add(drawing.rect((0, 0), ("100%", "100%"), class_="page"))
    for line, text in enumerate(heading):
        name = "title" if line == 0 and diagram.title else "legend"
        middle = _MARGIN + (line + 0.5) * LINE
        drawing.add(_text(drawing, _cut(text, _MAX_LINE), (_MARGIN, middle), name))
    corners = [(left + p.x * sizes.slot, sizes.top + p.depth * sizes.row) for p in places]
    for box, corner in zip(diagram.boxes, corners, strict=True):
        if box.parent >= 0:
            above = diagram.boxes[box.parent]
            start = _lower_edge(above, corners[box.parent], sizes)
            drawing.add(_edge(drawing, box, start, corner))
    for box, corner in zip(diagram.boxes, corners, strict=True):
        drawing.add(_group(drawing, box, corner, sizes))
    return drawing.tostring()


def _measure(diagram: Diagram, heading: int, columns: float) -> _Sizes:
    """Measures the largest box, and the room that the edges and the heading need."""
    boards = [board_size(box.picture) for box in diagram.boxes if box.picture is not None]
    text = max(text_length(line) for box in diagram.boxes for line in box.lines)
    box = max(text, *(board.width for board in boards), 40) + 2 * _PADDING
    label = max(text_length(_label(box)) for box in diagram.boxes)
    return _Sizes(
        slot=max(box, label) + _GAP,
        box=box,
        label=LINE + 4,
        body=max(map(_height, diagram.boxes)),
        gap=min(40 + 2 * columns, 120),
        top=_MARGIN + heading * LINE + 6,
    )


def text_length(text: str) -> float:
    """Returns the width of text in SVG units; characters of East Asia are twice as wide."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return CHARACTER * (len(text) + wide)


def _label(box: Box) -> str:
    return "  ".join(x for x in (_cut(box.label, _MAX_NAME), box.note) if x)


def _cut(text: str, length: int) -> str:
    text = printable(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def _edge(drawing: Any, box: Box, start: tuple[float, float], end: tuple[float, float]) -> Any:
    """Draws the edge from the lower edge of the parent to the label of the box."""
    top, bottom = start[1], end[1] + (LINE if box.style == "summary" else 0)
    middle = (top + bottom) / 2
    points = ((start[0], top), (start[0], middle), (end[0], middle), (end[0], bottom))
    first, *rest = (f"{x:g},{y:g}" for x, y in points)
    name = "edge best" if box.is_best else f"edge {box.style}"
    width = 3.0 if box.is_best else 1 + 4 * box.weight
    return drawing.path(
        f"M{first} C{' '.join(rest)}", class_=name, style=f"stroke-width: {width:.2f}"
    )


def _group(drawing: Any, box: Box, corner: tuple[float, float], sizes: _Sizes) -> Any:
    """Draws a box with its label; the label starts at the corner, which is its upper middle."""
    group = drawing.g(id=box.name, class_=f"node {box.style}")
    group.set_desc(title=printable(box.title))
    x, y = corner
    if label := _label(box):
        group.add(_label_text(drawing, box, label, (x, y + sizes.label / 2)))
    y += sizes.label
    for rectangle in _border(drawing, box, (x, y), sizes):
        group.add(rectangle)
    y += _PADDING
    if box.picture is not None:
        size = board_size(box.picture)
        group.add(draw_board(drawing, box.picture, x - size.width / 2, y))
        y += size.height + 6
    for line in box.lines:
        group.add(_text(drawing, line, (x, y + LINE / 2), "line", "middle"))
        y += LINE
    return group


def _label_text(drawing: Any, box: Box, label: str, middle: tuple[float, float]) -> Any:
    """Draws the name of the move in bold letters, and the note beside it."""
    left = middle[0] - text_length(label) / 2
    move = _cut(box.label, _MAX_NAME)
    group = drawing.g(class_="label")
    name = "move best" if box.is_best else "move"
    group.add(_text(drawing, move, (left, middle[1]), name))
    right = left + text_length(f"{move}  ")
    group.add(_text(drawing, box.note, (right, middle[1]), "note"))
    return group


def _height(box: Box) -> float:
    board = 0 if box.picture is None else board_size(box.picture).height + 6
    return len(box.lines) * LINE + board + 2 * _PADDING


def _lower_edge(box: Box, corner: tuple[float, float], sizes: _Sizes) -> tuple[float, float]:
    return corner[0], corner[1] + sizes.label + _height(box)


def _border(drawing: Any, box: Box, top: tuple[float, float], sizes: _Sizes) -> Iterator[Any]:
    if box.style == "summary":
        return
    left, width, height = top[0] - sizes.box / 2, sizes.box, _height(box)
    yield drawing.rect((left, top[1]), (width, height), rx=5, class_=f"box {box.style}")
    if box.style == "final":
        inner = (left + 3, top[1] + 3), (width - 6, height - 6)
        yield drawing.rect(*inner, rx=3, class_="inner")


def _text(
    drawing: Any, text: str, place: tuple[float, float], name: str, anchor: str = "start"
) -> Any:
    style = f"text-anchor: {anchor}; dominant-baseline: central"
    element = drawing.text(printable(text), insert=place, class_=name, style=style)
    element.attribs["xml:space"] = "preserve"
    return element
