"""Renders states as text for terminals and logs, and as SVG for notebooks.

Both formats render the same `Picture`; see `games/pictures.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dualmctx.errors import UserError
from games.pictures import Picture, picture

_CELL = 40  # side length of a cell in SVG units
_CENTRED = {"text_anchor": "middle", "dominant_baseline": "central"}
_PIECES = {"k": "\u265a", "q": "\u265b", "r": "\u265c", "b": "\u265d", "n": "\u265e", "p": "\u265f"}
# Asks for the symbol of a text font; some systems show a pawn as an emoji otherwise.
_AS_TEXT = "\ufe0e"
_SYMBOLS = "DejaVu Sans, Segoe UI Symbol, Apple Symbols, Noto Sans Symbols 2, sans-serif"


_BACKGROUND, _INK = "white", "black"
_STONES = {"x": "black", "o": "white"}
_LIGHT_SQUARE, _DARK_SQUARE, _MARK = "#f0e2c8", "#c19a6b", "#b9d977"


def to_text(state: Any, before: Any = None) -> str:
    """Renders a state as text.

    Args:
      state: a pgx state of a game of `games.make`, single or batched.
      before: the state before the last move, with the same batch; the cells that the move changed
        are in brackets. `None` marks no cells.

    Returns:
      A caption and the board: "x" for the first player, "o" for the second; pieces of chess as in
      FEN. Batched states are separated by blank lines.

    Raises:
      ValueError: if states of this kind cannot be rendered.
    """
    return "\n\n".join(map(_text, _pictures(state, before)))


def to_svg(state: Any, /, *, scale: float = 1.0, before: Any = None) -> str:
    """Renders a state as SVG; also a method of the states of this package, as in pgx.

    Args:
      state: single or batched; batched states are arranged in a square.
      scale: scale factor.
      before: the state before the last move, with the same batch; the cells that the move changed
        are coloured. `None` marks no cells.

    Returns:
      The SVG document.

    Raises:
      ValueError: if states of this kind cannot be rendered.
    """
    return _document(_pictures(state, before), scale).tostring()


def save_svg(
    state: Any, /, filename: str | Path, *, scale: float = 1.0, before: Any = None
) -> None:
    """Writes the output of `to_svg` to a file.

    Args:
      state: single or batched.
      filename: path of the file; must end with ".svg".
      scale: as in `to_svg`.
      before: as in `to_svg`.

    Raises:
      ValueError: if the name does not end with ".svg"; also the errors of `to_svg`.
    """
    if not str(filename).endswith(".svg"):
        raise UserError(f"filename={str(filename)!r}: pass a name that ends with '.svg'.")
    Path(filename).write_text(to_svg(state, scale=scale, before=before), encoding="utf-8")


def _pictures(state: Any, before: Any) -> list[Picture]:
    singles = _singles(state)
    earlier = [None] * len(singles) if before is None else _singles(before)
    if len(earlier) != len(singles):
        raise UserError(
            f"before has {len(earlier)} states, but there are {len(singles)}: pass the state "
            "before the last move of each."
        )
    return [picture(single, last) for single, last in zip(singles, earlier, strict=True)]


def _singles(state: Any) -> list[Any]:
    """Splits `[...]` states into a list of single states, as NumPy arrays on the host."""
    state = jax.device_get(state)
    shape = np.shape(state.current_player)
    return [
        jax.tree.map(lambda leaf, i=index: np.asarray(leaf)[i], state)
        for index in itertools.product(*map(range, shape))
    ]


def _text(drawn: Picture) -> str:
    labels = drawn.row_labels or ("",) * len(drawn.rows)
    margin = max(map(len, labels), default=0)
    width = max(
        (len(cell) for row in (*drawn.rows, drawn.column_labels) for cell in row), default=0
    )
    lines = []
    for y, (label, row) in enumerate(zip(labels, drawn.rows, strict=True)):
        marked = {x for x in range(len(row)) if (y, x) in drawn.marked}
        # A mark takes the place of the spaces around a cell.
        spaces = ["[" if x in marked else "]" if x - 1 in marked else " " for x in range(len(row))]
        end = "]" if len(row) - 1 in marked else ""
        cells = "".join(space + cell.rjust(width) for space, cell in zip(spaces, row, strict=True))
        line = f"{label.rjust(margin)}{cells}{end}"
        lines.append(line if margin or drawn.marked else line[1:])
    if drawn.column_labels:
        labels_below = "".join(" " + label.rjust(width) for label in drawn.column_labels)
        lines.append(" " * margin + labels_below if margin or drawn.marked else labels_below[1:])
    return "\n".join([drawn.caption, *lines])


def _document(pictures: Sequence[Picture], scale: float) -> Any:
    import svgwrite  # a dependency of pgx, loaded only when an SVG is rendered

    columns = math.ceil(math.sqrt(len(pictures)))
    width = (max((len(row) for p in pictures for row in p.rows), default=1) + 1) * _CELL
    width = max(width, 8 * max(len(p.caption) for p in pictures) + _CELL)
    height = (max(len(p.rows) for p in pictures) + 2) * _CELL
    size = (width * columns, height * math.ceil(len(pictures) / columns))
    drawing = svgwrite.Drawing(size=tuple(side * scale for side in size))
    sheet = drawing.add(drawing.g(transform=f"scale({scale})"))
    sheet.add(drawing.rect((0, 0), size, fill=_BACKGROUND))
    for number, drawn in enumerate(pictures):
        corner = (number % columns * width, number // columns * height)
        sheet.add(_group(drawing, drawn, corner))
    return drawing


def draw_board(drawing: Any, drawn: Picture, side: float) -> Any:
    """Draws the cells of a picture with the corner at (0, 0), as a group of SVG elements.

    Args:
      drawing: the `svgwrite.Drawing` that makes the elements.
      drawn: the picture.
      side: the side length of a cell in SVG units.
    """
    group = drawing.g(transform=f"scale({side / _CELL:g})")
    group.add(_cells(drawing, drawn))
    return group


def _group(drawing: Any, drawn: Picture, corner: tuple[int, int]) -> Any:
    group = drawing.g(transform=f"translate({corner[0]},{corner[1]})", font_family="monospace")
    group.add(drawing.text(drawn.caption, insert=(_CELL / 2, _CELL / 2), font_size=12, fill=_INK))
    board = group.add(drawing.g(transform=f"translate({_CELL / 2:g},{_CELL})"))
    board.add(_cells(drawing, drawn))
    for label, place in _labels(drawn):
        group.add(drawing.text(label, insert=place, font_size=10, fill=_INK, **_CENTRED))
    return group


def _cells(drawing: Any, drawn: Picture) -> Any:
    """Draws the cells with the corner of the board at (0, 0)."""
    group = drawing.g()
    for y, row in enumerate(drawn.rows):
        for x, cell in enumerate(row):
            if not cell:
                continue
            left, top = x * _CELL, y * _CELL
            fill = _square_colour(drawn, y, x)
            square = drawing.rect((left, top), (_CELL, _CELL), fill=fill, stroke=_INK)
            group.add(square)
            if cell != ".":
                centre = (left + _CELL / 2, top + _CELL / 2)
                group.add(_content(drawing, drawn, cell, centre))
    return group


def _square_colour(drawn: Picture, y: int, x: int) -> str:
    if (y, x) in drawn.marked:
        return _MARK
    if not drawn.is_chess:
        return "none"
    # The corner at the left of the bottom row is dark.
    return (_LIGHT_SQUARE, _DARK_SQUARE)[(len(drawn.rows) - y + x) % 2]


def _content(drawing: Any, drawn: Picture, cell: str, centre: tuple[float, float]) -> Any:
    """Draws a stone, a piece of chess, or text."""
    if cell in _STONES:
        return drawing.circle(centre, 0.4 * _CELL, fill=_STONES[cell], stroke=_INK)
    if drawn.is_chess and cell.lower() in _PIECES:
        # The solid symbols for both sides; the outline keeps white pieces visible.
        fill, outline = ("white", "black") if cell.isupper() else ("black", "white")
        symbol = _PIECES[cell.lower()] + _AS_TEXT
        style = {"fill": fill, "stroke": outline, "stroke_width": 0.7, "font_family": _SYMBOLS}
        return drawing.text(symbol, insert=centre, font_size=30, **style, **_CENTRED)
    size = 22 if len(cell) == 1 else 16
    return drawing.text(cell, insert=centre, font_size=size, fill=_INK, **_CENTRED)


def _labels(drawn: Picture) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yields the labels of rows and columns, with their places."""
    for y, label in enumerate(drawn.row_labels):
        yield label, (_CELL / 4, (y + 1.5) * _CELL)
    for x, label in enumerate(drawn.column_labels):
        yield label, ((x + 1) * _CELL, (len(drawn.rows) + 1.25) * _CELL)
