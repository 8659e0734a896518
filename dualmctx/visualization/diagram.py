"""The boxes of a drawing with their text, and the places of boxes and edges.

The root is at the left, the boxes of one depth are in a column, and a parent is beside the middle
of its children. Places are in SVG units.
"""

import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from games import Picture

Style = Literal["plain", "partial", "final", "summary"]
"""The border of a box.

plain: one line. partial: dashed, for a node that not all trees have. final: two lines, for a node
where the game is over. summary: none, for the nodes that are not shown.
"""
_MAX_NAME = 18
LINE, CHARACTER = 15, 7.3
"""The height of a line of text, and the width of a character of the monospaced font, rounded up."""
MARGIN, PADDING, LABEL, BELOW_BOARD = 16, 7, LINE + 4, 6
"""The margin of the page, the padding of a box, the height of the text above a box, and the
distance between a board and the text below it."""
_GAP = 14
_BOARD, _LARGEST_CELL, _SMALLEST_CELL, _TEXT_CELL = 96, 24, 9, 24
Point = tuple[float, float]


class Box(NamedTuple):
    """A box of a drawing, with the edge into it.

    Attributes:
      name: identifies the box; letters and digits.
      parent: the position of the parent in the list of boxes, which is in depth-first order; -1 for
        the root.
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


def cut(text: str, length: int) -> str:
    """Returns at most `length` characters of a text; dots stand for the others."""
    text = printable(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def printable(text: str) -> str:
    """Replaces characters that XML does not allow, or that change the lines around them."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


class Geometry(NamedTuple):
    """The geometry of a drawing without its heading.

    Attributes:
      width: the width.
      height: the height.
      box: the width of all boxes.
      corners: for each box the upper middle of its label, which is above it.
      edges: for each box the points of the edge into it: a straight part, a cubic curve of four
        points and a straight part; `None` for the root.
    """

    width: float
    height: float
    box: float
    corners: list[Point]
    edges: list[tuple[Point, ...] | None]


def measure(boxes: Sequence[Box]) -> Geometry:
    """Places boxes without overlaps."""
    places = lay_out([box.parent for box in boxes])
    boards = [board_size(x.picture)[0] for x in boxes if x.picture is not None]
    text = max(text_length(line) for x in boxes for line in x.lines)
    box = max(text, *boards, 40) + 2 * PADDING
    column = max(box, *(text_length(label_of(x)) for x in boxes))
    height = LABEL + max(map(height_of, boxes))
    deepest, last_row = (max(numbers) for numbers in zip(*places, strict=True))
    step = column + min(40 + 2 * last_row, 120), height + _GAP
    corners = [(column / 2 + depth * step[0], row * step[1]) for depth, row in places]
    edges = [
        None if x.parent < 0 else _edge(corners[x.parent], end, column, box)
        for x, end in zip(boxes, corners, strict=True)
    ]
    size = deepest * step[0] + column, last_row * step[1] + height
    return Geometry(*size, box, corners, edges)


def _edge(start: Point, end: Point, column: float, box: float) -> tuple[Point, ...]:
    """Returns the edge between the sides of two boxes, straight beside their labels."""
    below = LABEL + PADDING + LINE / 2
    first, last = (start[0] + box / 2, start[1] + below), (end[0] - box / 2, end[1] + below)
    begin, stop = (start[0] + column / 2, first[1]), (end[0] - column / 2, last[1])
    middle = (begin[0] + stop[0]) / 2
    return first, begin, (middle, begin[1]), (middle, stop[1]), stop, last


def height_of(box: Box) -> float:
    """Returns the height of a box without its label."""
    board = 0 if box.picture is None else board_size(box.picture)[1] + BELOW_BOARD
    return len(box.lines) * LINE + board + 2 * PADDING


def label_of(box: Box) -> str:
    """Returns the text above a box: the name of the move and the note."""
    return "  ".join(x for x in (box.label, box.note) if x)


def text_length(text: str) -> float:
    """Returns the width of text; characters of East Asia are twice as wide."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return CHARACTER * (len(text) + wide)


def cell_side(picture: Picture) -> float:
    """Returns the side of a cell: smaller for larger boards, unless cells have longer text."""
    if any(len(cell) > 1 for row in picture.rows for cell in row):
        return _TEXT_CELL
    longest = max([len(picture.rows), *map(len, picture.rows), 1])
    return max(_SMALLEST_CELL, min(_LARGEST_CELL, _BOARD // longest))


def board_size(picture: Picture) -> Point:
    """Returns the width and the height of a board."""
    side = cell_side(picture)
    return side * max(map(len, picture.rows), default=1), side * len(picture.rows)


def lay_out(parents: Sequence[int]) -> list[tuple[int, float]]:
    """Returns the depth and the row of each box; boxes are in depth-first order, -1 is no parent.

    Leaves have consecutive rows, and a parent is in the middle between its first and last child.
    """
    depths: list[int] = []
    rows, children = [0.0] * len(parents), [[] for _ in parents]
    leaves = iter(sorted(set(range(len(parents))) - set(parents)))
    for row, box in enumerate(leaves):
        rows[box] = row
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    for box in reversed(range(len(parents))):
        below: list[float] = children[box]
        if below:
            rows[box] = (below[0] + below[-1]) / 2
        if parents[box] >= 0:
            children[parents[box]].append(rows[box])
    return list(zip(depths, rows, strict=True))
