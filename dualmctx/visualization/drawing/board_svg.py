"""Draws the picture of a position as a small board, for the boxes of a tree."""

from typing import Any, NamedTuple

from dualmctx.visualization.drawing.svg_style import CHARACTER
from games import Picture

_SIDE, _LARGEST_CELL, _SMALLEST_CELL = 96, 24, 9
_PIECES = {"k": "\u265a", "q": "\u265b", "r": "\u265c", "b": "\u265d", "n": "\u265e", "p": "\u265f"}
# Asks for the symbol of a text font; some systems show a pawn as an emoji otherwise.
_AS_TEXT = "\ufe0e"


class Size(NamedTuple):
    """The size of a board and of its cells, in SVG units."""

    width: float
    height: float
    cell_width: float
    cell_height: float


def board_size(picture: Picture) -> Size:
    """Returns the size of a board; smaller cells for larger boards."""
    columns = max((len(row) for row in picture.rows), default=1) or 1
    rows = len(picture.rows) or 1
    cell = max(_SMALLEST_CELL, min(_LARGEST_CELL, _SIDE // max(columns, rows)))
    text = max((len(cell) for row in picture.rows for cell in row), default=1)
    # A single character is drawn in the size of the cell, longer text in that of all text.
    width = cell if text <= 1 else max(cell, CHARACTER * text + 4)
    height = cell if text <= 1 else max(cell, 16)
    return Size(columns * width, rows * height, width, height)


def draw_board(drawing: Any, picture: Picture, left: float, top: float) -> Any:
    """Draws a board.

    Args:
      drawing: the `svgwrite.Drawing` that makes the elements.
      picture: the position.
      left: the left edge of the board.
      top: its upper edge.

    Returns:
      A group of elements with the classes of `svg_style`.
    """
    size = board_size(picture)
    group = drawing.g(class_="board")
    for y, row in enumerate(picture.rows):
        for x, cell in enumerate(row):
            if not cell:
                continue
            corner = (left + x * size.cell_width, top + y * size.cell_height)
            name = _cell_class(picture, y, x)
            group.add(drawing.rect(corner, (size.cell_width, size.cell_height), class_=name))
            if cell != ".":
                centre = (corner[0] + size.cell_width / 2, corner[1] + size.cell_height / 2)
                group.add(_content(drawing, picture, cell, centre, size.cell_height))
    return group


def _cell_class(picture: Picture, y: int, x: int) -> str:
    if (y, x) in picture.marked:
        return "cell mark"
    if not picture.is_chess:
        return "cell"
    # The corner at the left of the bottom row is dark.
    return ("cell light", "cell dark")[(len(picture.rows) - y + x) % 2]


def _content(
    drawing: Any, picture: Picture, cell: str, centre: tuple[float, float], height: float
) -> Any:
    """Draws a stone, a piece of chess, or text."""
    if cell in ("x", "o"):
        return drawing.circle(
            centre, 0.38 * height, class_=f"stone {'first' if cell == 'x' else 'second'}"
        )
    if picture.is_chess and cell.lower() in _PIECES:
        name = f"piece {'white' if cell.isupper() else 'black'}"
        return _text(drawing, _PIECES[cell.lower()] + _AS_TEXT, centre, 0.8 * height, name)
    return _text(drawing, cell, centre, 0.7 * height if len(cell) == 1 else 12, "cell-text")


def _text(drawing: Any, text: str, centre: tuple[float, float], size: float, name: str) -> Any:
    # A style attribute, because the style sheet takes precedence over other attributes.
    return drawing.text(
        text,
        insert=centre,
        class_=name,
        style=f"font-size: {size:g}px; text-anchor: middle; dominant-baseline: central",
    )
