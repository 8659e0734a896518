"""Sizes and places of the boxes and the edges of a diagram, in SVG units."""

import unicodedata
from typing import NamedTuple

from dualmctx.visualization.drawing.board_svg import board_size
from dualmctx.visualization.drawing.diagram import Box, Diagram, children_of, printable
from dualmctx.visualization.drawing.layout import lay_out
from dualmctx.visualization.drawing.svg_style import CHARACTER, LINE

MARGIN, PADDING, LABEL = 16, 7, LINE + 4
"""The margin of the page, the padding of a box, and the height of the text above a box."""
BELOW_BOARD = 6
"""The distance between a board and the text below it."""
_GAP, _MAX_NAME = 14, 18

Point = tuple[float, float]


class Geometry(NamedTuple):
    """The geometry of a drawing without its heading.

    Attributes:
      width: the width.
      height: the height.
      box: the width of all boxes.
      corners: for each box the upper middle of its label, which is above it.
      edges: for each box the points of the edge into it, in pairs of a straight part, a cubic curve
        of four points and a straight part; `None` for the root.
    """

    width: float
    height: float
    box: float
    corners: list[Point]
    edges: list[tuple[Point, ...] | None]


def measure(diagram: Diagram) -> Geometry:
    """Places the boxes of a diagram without overlaps, in the direction of the diagram."""
    places = lay_out(children_of(diagram))
    boards = [board_size(box.picture).width for box in diagram.boxes if box.picture is not None]
    text = max(text_length(line) for box in diagram.boxes for line in box.lines)
    box = max(text, *boards, 40) + 2 * PADDING
    cell = max(box, *(text_length(label_of(x)) for x in diagram.boxes))
    body = LABEL + max(map(height_of, diagram.boxes))
    across, deep = max(place.x for place in places), max(place.depth for place in places)
    gap = min(40 + 2 * across, 120)
    is_down = diagram.direction == "down"
    step = (cell + _GAP, body + gap) if is_down else (cell + gap, body + _GAP)
    columns, rows = (across, deep) if is_down else (deep, across)
    turned = [(p.x, p.depth) if is_down else (p.depth, p.x) for p in places]
    corners = [(cell / 2 + x * step[0], y * step[1]) for x, y in turned]
    edges: list[tuple[Point, ...] | None] = []
    for x, end in zip(diagram.boxes, corners, strict=True):
        if x.parent < 0:
            edges.append(None)
            continue
        parent, start = diagram.boxes[x.parent], corners[x.parent]
        edges.append(_down(parent, start, x, end) if is_down else _right(start, end, cell, box))
    return Geometry(columns * step[0] + cell, rows * step[1] + body, box, corners, edges)


def _down(parent: Box, start: Point, box: Box, end: Point) -> tuple[Point, ...]:
    """Returns the edge from the lower edge of the parent to the label of the box."""
    first = (start[0], start[1] + LABEL + height_of(parent))
    last = (end[0], end[1] + (LABEL if box.style == "summary" else 0))
    middle = (first[1] + last[1]) / 2
    return first, first, (first[0], middle), (last[0], middle), last, last


def _right(start: Point, end: Point, cell: float, box: float) -> tuple[Point, ...]:
    """Returns the edge between the sides of two boxes, straight beside their labels."""
    below = LABEL + PADDING + LINE / 2
    first, last = (start[0] + box / 2, start[1] + below), (end[0] - box / 2, end[1] + below)
    begin, stop = (start[0] + cell / 2, first[1]), (end[0] - cell / 2, last[1])
    middle = (begin[0] + stop[0]) / 2
    return first, begin, (middle, begin[1]), (middle, stop[1]), stop, last


def height_of(box: Box) -> float:
    """Returns the height of a box without its label."""
    board = 0 if box.picture is None else board_size(box.picture).height + BELOW_BOARD
    return len(box.lines) * LINE + board + 2 * PADDING


def label_of(box: Box) -> str:
    """Returns the text above a box: the name of the move and the note."""
    return "  ".join(x for x in (name_of(box), box.note) if x)


def name_of(box: Box) -> str:
    """Returns the name of the move, cut if it is long, with a star if it is marked."""
    name = cut(box.move, _MAX_NAME)
    return f"{name} ★" if box.is_best else name


def cut(text: str, length: int) -> str:
    """Returns at most `length` characters of a text; dots stand for the others."""
    text = printable(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def text_length(text: str) -> float:
    """Returns the width of text; characters of East Asia are twice as wide."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return CHARACTER * (len(text) + wide)
