"""A drawing of a tree without its format: boxes with text, and edges with labels."""

from typing import Literal, NamedTuple, get_args

from dualmctx.checks import check
from games import Picture

Style = Literal["plain", "partial", "final", "summary"]
"""The border of a box.

plain: one line. partial: dashed, for a node that not all trees have. final: two lines, for a node
where the game is over. summary: none, for the nodes that are not shown.
"""

Direction = Literal["down", "right"]
"""The direction from the root to its children.

down: nodes of one depth are in a row. right: they are in a column, which suits wide trees.
"""


class Box(NamedTuple):
    """A box of a drawing, with the edge into it.

    Attributes:
      name: identifies the box; letters and digits.
      parent: the position of the parent in `Diagram.boxes`; -1 for the root.
      move: the name of the move that leads to the box; empty for the root and for summaries.
      note: further text beside the edge, such as the prior; may be empty.
      lines: the lines of text in the box.
      cells: the entries of the box in the columns of a table.
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
    cells: tuple[str, ...]
    title: str
    style: Style = "plain"
    weight: float = 0.0
    is_best: bool = False
    picture: Picture | None = None

    @property
    def label(self) -> str:
        """The name of the move, with a star if it is marked."""
        return f"{self.move} ★" if self.is_best else self.move


class Diagram(NamedTuple):
    """A drawing of a tree.

    Attributes:
      title: one line above the drawing.
      legend: the lines that explain it.
      columns: the headers of `Box.cells`.
      boxes: parents come before their children, and siblings from left to right.
      direction: where the children of a node are.
    """

    title: str
    legend: tuple[str, ...]
    columns: tuple[str, ...]
    boxes: tuple[Box, ...]
    direction: Direction = "down"


def check_direction(direction: str) -> None:
    """Checks a direction.

    Raises:
      ValueError: if there is no such direction.
    """
    known = get_args(Direction)
    check(direction in known, "direction", direction, f"one of {', '.join(known)}")


def children_of(diagram: Diagram) -> list[list[int]]:
    """Returns the positions of the children of each box, from left to right."""
    children: list[list[int]] = [[] for _ in diagram.boxes]
    for i, box in enumerate(diagram.boxes):
        if box.parent >= 0:
            children[box.parent].append(i)
    return children


_BORDERS: dict[Style, str] = {
    "partial": "dashed box: not all trees have the node",
    "final": "double box: the game is over",
}


def explain_borders(diagram: Diagram) -> tuple[str, ...]:
    """Returns a line of the legend for each border that occurs and is not a single line."""
    styles = {box.style for box in diagram.boxes}
    return tuple(text for style, text in _BORDERS.items() if style in styles)


def printable(text: str) -> str:
    """Replaces characters that XML does not allow, or that change the lines around them."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
