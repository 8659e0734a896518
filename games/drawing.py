"""Renders states as text for terminals and logs, and as SVG for notebooks.

Both formats render the same `Picture`; see `games/pictures.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from games.pictures import Picture, picture

Theme = Literal["light", "dark"]

_CELL = 40  # side length of a cell in SVG units
# Background, lines and text, stones of the first player, stones of the second player.
_COLOURS = {
    "light": ("white", "black", "black", "white"),
    "dark": ("#1e1e1e", "gainsboro", "dimgray", "gainsboro"),
}


def to_text(state: Any) -> str:
    """Renders a state as text.

    Args:
      state: a pgx state of a game of `games.make`, single or batched.

    Returns:
      A caption and the board: "x" for the first player, "o" for the second. Batched states are
      separated by blank lines.

    Raises:
      ValueError: if states of this kind cannot be rendered.
    """
    return "\n\n".join(_text(picture(single)) for single in _singles(state))


def to_svg(state: Any, /, *, color_theme: Theme | None = None, scale: float | None = None) -> str:
    """Renders a state as SVG; also a method of the states of this package, as in pgx.

    Args:
      state: single or batched; batched states are arranged in a square.
      color_theme: "light" (the default) or "dark".
      scale: scale factor, 1.0 by default.

    Returns:
      The SVG document.

    Raises:
      ValueError: if the theme is unknown or states of this kind cannot be rendered.
    """
    return _document([picture(single) for single in _singles(state)], color_theme, scale).tostring()


def save_svg(
    state: Any,
    /,
    filename: str | Path,
    *,
    color_theme: Theme | None = None,
    scale: float | None = None,
) -> None:
    """Writes the output of `to_svg` to a file.

    Args:
      state: single or batched.
      filename: path of the file; must end with ".svg".
      color_theme: as in `to_svg`.
      scale: as in `to_svg`.

    Raises:
      ValueError: if the name does not end with ".svg"; also the errors of `to_svg`.
    """
    if not str(filename).endswith(".svg"):
        raise ValueError(f"filename={str(filename)!r}: pass a name that ends with '.svg'.")
    Path(filename).write_text(to_svg(state, color_theme=color_theme, scale=scale), encoding="utf-8")


def _singles(state: Any) -> list[Any]:
    """Splits `[...]` states into a list of single states, as NumPy arrays on the host."""
    state = jax.device_get(state)
    shape = np.shape(state.current_player)
    return [
        jax.tree.map(lambda leaf, i=index: np.asarray(leaf)[i], state)
        for index in itertools.product(*map(range, shape))
    ]


def _text(drawn: Picture) -> str:
    width = max((len(cell) for row in drawn.rows for cell in row), default=0)
    lines = [" ".join(cell.rjust(width) for cell in row) for row in drawn.rows]
    return "\n".join([drawn.caption, *lines])


def _document(pictures: Sequence[Picture], theme: Theme | None, scale: float | None) -> Any:
    import svgwrite  # a dependency of pgx, loaded only when an SVG is rendered

    theme, scale = theme or "light", 1.0 if scale is None else scale
    if theme not in _COLOURS:
        raise ValueError(f"color_theme={theme!r}: pass 'light' or 'dark'.")
    columns = math.ceil(math.sqrt(len(pictures)))
    width = (max((len(row) for p in pictures for row in p.rows), default=1) + 1) * _CELL
    width = max(width, 8 * max(len(p.caption) for p in pictures) + _CELL)
    height = (max(len(p.rows) for p in pictures) + 2) * _CELL
    size = (width * columns, height * math.ceil(len(pictures) / columns))
    drawing = svgwrite.Drawing(size=tuple(side * scale for side in size))
    sheet = drawing.add(drawing.g(transform=f"scale({scale})"))
    sheet.add(drawing.rect((0, 0), size, fill=_COLOURS[theme][0]))
    for number, drawn in enumerate(pictures):
        corner = (number % columns * width, number // columns * height)
        sheet.add(_group(drawing, drawn, corner, theme))
    return drawing


def _group(drawing: Any, drawn: Picture, corner: tuple[int, int], theme: Theme) -> Any:
    _, ink, first, second = _COLOURS[theme]
    group = drawing.g(transform=f"translate({corner[0]},{corner[1]})", font_family="monospace")
    group.add(drawing.text(drawn.caption, insert=(_CELL / 2, _CELL / 2), font_size=12, fill=ink))
    for y, row in enumerate(drawn.rows, start=1):
        for x, cell in enumerate(row):
            if not cell:
                continue
            left, top = (x + 0.5) * _CELL, y * _CELL
            centre = (left + _CELL / 2, top + _CELL / 2)
            group.add(drawing.rect((left, top), (_CELL, _CELL), fill="none", stroke=ink))
            if cell in ("x", "o"):
                fill = first if cell == "x" else second
                group.add(drawing.circle(centre, 0.4 * _CELL, fill=fill, stroke=ink))
            elif cell != ".":
                place = {"text_anchor": "middle", "dominant_baseline": "central"}
                group.add(drawing.text(cell, insert=centre, font_size=16, fill=ink, **place))
    return group
