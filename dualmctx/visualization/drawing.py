"""A finished drawing of a tree as SVG or DOT, which can be displayed, converted and saved."""

import dataclasses
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import svgwrite

from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.visualization.diagram import (
    BELOW_BOARD,
    LABEL,
    LINE,
    MARGIN,
    PADDING,
    Box,
    Point,
    Style,
    board_size,
    cell_side,
    cut,
    height_of,
    label_of,
    measure,
    printable,
    text_length,
)
from games.drawing import draw_board

SUFFIXES: tuple[str, ...] = (".svg", ".dot")
"""The formats of `Drawing.save`."""
# The line of the legend for each border that is not a single line.
_BORDERS: dict[Style, str] = {
    "partial": "dashed box: not all trees have the node",
    "final": "double box: the game is over",
}
_DOT_STYLES = {
    "plain": "",
    "partial": ', style="dashed"',
    "final": ", peripheries=2",
    "summary": ', shape="plaintext"',
}
# The part of a title or of a line of the legend that is drawn.
_MAX_LINE = 110
_FONTS = "DejaVu Sans Mono, Menlo, Consolas, Liberation Mono, monospace"
_PAGE, _INK, _FAINT, _EDGE = "#ffffff", "#1b1f24", "#57606a", "#8c959f"
_BOX, _BEST = "#f6f8fa", "#0a5bb5"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """A drawing of a tree; Jupyter displays it. Equal trees give equal texts.

    Attributes:
      title: one line above the drawing.
      legend: the lines that explain it.
      boxes: in depth-first order.
    """

    title: str
    legend: tuple[str, ...]
    boxes: tuple[Box, ...]

    @property
    def heading(self) -> tuple[str, ...]:
        """The title and the legend, with the borders that occur; empty lines are omitted."""
        styles = {box.style for box in self.boxes}
        borders = (text for style, text in _BORDERS.items() if style in styles)
        return tuple(filter(None, (self.title, *self.legend, *borders)))

    def to_svg(self) -> str:
        """Returns an SVG document, which needs no other file."""
        return _draw_svg(self)

    def to_dot(self) -> str:
        """Returns a graph in the DOT language of Graphviz; boards are rows of letters."""
        lines = [
            "digraph tree {",
            f'  graph [label={_quote(*self.heading)}, labelloc="t", labeljust="l", rankdir="LR"];',
            '  node [shape="box", fontname="monospace", fontsize=10];',
            '  edge [fontname="monospace", fontsize=10];',
        ]
        for box in self.boxes:
            label, title = _quote(*_board(box), *box.lines), _quote(box.title)
            lines.append(f"  {box.name} [label={label}, tooltip={title}{_DOT_STYLES[box.style]}];")
        for box in self.boxes:
            if box.parent >= 0:
                label = _quote(*filter(None, (box.label, box.note)))
                style = ', style="dotted"' if box.style == "summary" else ""
                edge = f"{self.boxes[box.parent].name} -> {box.name}"
                lines.append(f"  {edge} [label={label}, penwidth={box.edge_width:.2f}{style}];")
        return "\n".join([*lines, "}"]) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the drawing to a file, atomically; an existing file is replaced.

        Args:
          path: the file; its suffix decides the format: .svg or .dot.

        Raises:
          ValueError: if the suffix is another one.
          OSError: if the file cannot be written.
        """
        atomic_write_text(Path(path), self.convert(Path(path)))

    def convert(self, path: Path) -> str:
        """Returns the content of a file, in the format of its suffix."""
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            raise UserError(f"the file is {path}; its name must end in {' or '.join(SUFFIXES)}")
        return self.to_svg() if suffix == ".svg" else self.to_dot()

    def _repr_svg_(self) -> str:
        """Returns the drawing for Jupyter."""
        return self.to_svg()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self.boxes)} boxes>"


def _board(box: Box) -> list[str]:
    """Returns the rows of a board as text."""
    if box.picture is None:
        return []
    width = max((len(cell) for row in box.picture.rows for cell in row), default=0)
    return [" ".join(cell.rjust(width) for cell in row) for row in box.picture.rows]


def _quote(*lines: str) -> str:
    r"""Returns lines as one quoted string; `\n` separates them, and a backslash is escaped."""
    return '"' + "\\n".join(re.sub(r'(["\\])', r"\\\1", printable(line)) for line in lines) + '"'


def _draw_svg(shown: Drawing) -> str:
    """Returns a drawing as SVG.

    Every box is a group with its name in `id`, and its description in `<title>`, which browsers
    show when the mouse is over the box.
    """
    placed = measure(shown.boxes)
    heading = [cut(line, _MAX_LINE) for line in shown.heading]
    top = len(heading) * LINE + (8 if heading else 0)
    width = max(placed.width, *map(text_length, heading), 0) + 2 * MARGIN
    height = placed.height + top + 2 * MARGIN
    drawing = svgwrite.Drawing(size=(f"{width:g}", f"{height:g}"), debug=False)
    drawing.viewbox(0, 0, round(width, 2), round(height, 2))
    drawing.attribs["role"] = "img"
    drawing.set_desc(title=cut(shown.title, _MAX_LINE) or "search tree")
    drawing.add(drawing.rect((0, 0), ("100%", "100%"), fill=_PAGE))
    sheet = drawing.add(drawing.g(font_family=_FONTS, font_size=12, fill=_INK))
    for line, text in enumerate(heading):
        is_title = line == 0 and bool(shown.title)
        style = {"font_weight": "bold"} if is_title else {"fill": _FAINT}
        sheet.add(_text(drawing, text, (MARGIN, MARGIN + (line + 0.5) * LINE), **style))
    move = f"translate({(width - placed.width) / 2:g},{top + MARGIN})"
    tree = sheet.add(drawing.g(transform=move))
    for box, points in zip(shown.boxes, placed.edges, strict=True):
        if points is not None:
            tree.add(_edge(drawing, box, points))
    for box, corner in zip(shown.boxes, placed.corners, strict=True):
        tree.add(_group(drawing, box, corner, placed.box))
    return drawing.tostring()


def _edge(drawing: Any, box: Box, points: tuple[Point, ...]) -> Any:
    first, begin, *curve, last = (f"{x:g},{y:g}" for x, y in points)
    path = f"M{first} L{begin} C{' '.join(curve)} L{last}"
    dashes = {"stroke_dasharray": "2 3"} if box.style == "summary" else {}
    ink, width = _BEST if box.is_best else _EDGE, f"{box.edge_width:.2f}"
    return drawing.path(path, fill="none", stroke=ink, stroke_width=width, **dashes)


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
        board = board_size(box.picture)
        place = drawing.g(transform=f"translate({x - board[0] / 2:g},{y:g})")
        place.add(draw_board(drawing, box.picture, cell_side(box.picture)))
        group.add(place)
        y += board[1] + BELOW_BOARD
    for line in box.lines:
        group.add(_text(drawing, line, (x, y + LINE / 2), class_="line", text_anchor="middle"))
        y += LINE
    return group


def _label(drawing: Any, box: Box, middle: Point) -> Iterator[Any]:
    """Draws the name of the move in bold letters, and the note beside it."""
    left = middle[0] - text_length(label_of(box)) / 2
    if box.label:
        ink = _BEST if box.is_best else _INK
        yield _text(drawing, box.label, (left, middle[1]), font_weight="bold", fill=ink)
    if box.note:
        place = (left + text_length(f"{box.label}  "), middle[1])
        yield _text(drawing, box.note, place, fill=_FAINT)


def _border(drawing: Any, box: Box, corner: Point, size: Point) -> Iterator[Any]:
    if box.style == "summary":
        return
    dashes = {"fill": _PAGE, "stroke_dasharray": "5 3"} if box.style == "partial" else {}
    style = {"fill": _BOX, "stroke": _INK, "stroke_width": 1.2} | dashes
    yield drawing.rect(corner, size, rx=5, **style)
    if box.style == "final":
        inner = (corner[0] + 3, corner[1] + 3), (size[0] - 6, size[1] - 6)
        yield drawing.rect(*inner, rx=3, fill="none", stroke=_INK, stroke_width=0.8)


def _text(drawing: Any, text: str, place: Point, **style: Any) -> Any:
    element = drawing.text(printable(text), insert=place, dominant_baseline="central", **style)
    element.attribs["xml:space"] = "preserve"
    return element
