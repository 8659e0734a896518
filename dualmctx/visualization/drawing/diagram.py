"""A drawing of a tree without its format: boxes with text, and edges with labels."""

from typing import Literal, NamedTuple

from games import Picture

Style = Literal["plain", "partial", "final", "summary"]
"""The border of a box.

plain: one line. partial: dashed, for a node that not all trees have. final: two lines, for a node
where the game is over. summary: none, for the nodes that are not shown.
"""
_MAX_NAME = 18


class Box(NamedTuple):
    """A box of a drawing, with the edge into it.

    Attributes:
      name: identifies the box; letters and digits.
      parent: the position of the parent in `Diagram.boxes`; -1 for the root.
      move: the name of the move that leads to the box; empty for the root and for summaries.
      note: further text beside the edge, such as the prior; may be empty.
      lines: the lines of text in the box.
      title: a description in full precision, shown when the mouse is over the box.
      style: the border.
      weight: the width of the edge, from 0 to 1.
      is_best: whether the edge is marked by a star.
      picture: the board to draw in the box, if any.
    """

    name: str
    parent: int
    move: str
    note: str
    lines: tuple[str, ...]
    title: str
    style: Style = "plain"
    weight: float = 0.0
    is_best: bool = False
    picture: Picture | None = None

    @property
    def label(self) -> str:
        """The name of the move, cut if it is long, with a star if it is marked."""
        name = cut(self.move, _MAX_NAME)
        return f"{name} ★" if self.is_best else name

    @property
    def edge_width(self) -> float:
        """The width of the edge into the box, in SVG units or points."""
        return 3.0 if self.is_best else 1 + 4 * self.weight


class Diagram(NamedTuple):
    """A drawing of a tree.

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
        """The title, the legend, and a line for each border that is not a single line."""
        styles = {box.style for box in self.boxes}
        borders = (text for style, text in _BORDERS.items() if style in styles)
        return tuple(filter(None, (self.title, *self.legend, *borders)))


_BORDERS: dict[Style, str] = {
    "partial": "dashed box: not all trees have the node",
    "final": "double box: the game is over",
}


def cut(text: str, length: int) -> str:
    """Returns at most `length` characters of a text; dots stand for the others."""
    text = printable(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def printable(text: str) -> str:
    """Replaces characters that XML does not allow, or that change the lines around them."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
