"""A finished drawing of a tree, which can be displayed, converted and saved."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import orjson

from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.visualization.drawing.diagram import Diagram
from dualmctx.visualization.drawing.dot import to_dot
from dualmctx.visualization.drawing.html import to_html
from dualmctx.visualization.drawing.svg import to_svg
from dualmctx.visualization.drawing.svg_style import Theme
from dualmctx.visualization.drawing.text import to_text

SUFFIXES: tuple[str, ...] = (".svg", ".dot", ".json", ".html", ".txt")
"""The formats of `Drawing.save`."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """A drawing of a tree; Jupyter displays it.

    `print(drawing)` prints the tree as text. Equal trees give equal texts in every format.

    Attributes:
      diagram: the boxes and their texts.
      record: the content of the JSON file.
      theme: the colours of SVG and HTML: light, dark or auto.
    """

    diagram: Diagram
    record: dict[str, Any]
    theme: Theme = "auto"

    def to_svg(self) -> str:
        """Returns an SVG document."""
        return to_svg(self.diagram, self.theme)

    def to_dot(self) -> str:
        """Returns a graph in the DOT language of Graphviz."""
        return to_dot(self.diagram)

    def to_json(self) -> str:
        """Returns JSON with all nodes of the tree, also those that the drawing summarises.

        Numbers have the precision of the arrays; NaN and infinite numbers become null.
        """
        return orjson.dumps(self.record, option=orjson.OPT_INDENT_2).decode() + "\n"

    def to_html(self) -> str:
        """Returns a page with the drawing, without scripts and without links to other files."""
        return to_html(self.diagram, self.theme)

    def to_text(self) -> str:
        """Returns a table with one line per node, indented by depth."""
        return to_text(self.diagram)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the drawing to a file, atomically; an existing file is replaced.

        Args:
          path: the file; its suffix decides the format: .svg, .dot, .json, .html or .txt.

        Raises:
          ValueError: if the suffix is another one.
          OSError: if the file cannot be written.
        """
        atomic_write_text(Path(path), self.convert(Path(path)))

    def convert(self, path: Path) -> str:
        """Returns the content of a file, in the format of its suffix."""
        writers = (self.to_svg, self.to_dot, self.to_json, self.to_html, self.to_text)
        writer = dict(zip(SUFFIXES, writers, strict=True)).get(path.suffix.lower())
        if writer is None:
            raise UserError(f"the file is {path}; its name must end in {', '.join(SUFFIXES)}")
        return writer()

    def _repr_svg_(self) -> str:
        """Returns the drawing for Jupyter."""
        return self.to_svg()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self.diagram.boxes)} boxes>"

    def __str__(self) -> str:
        return self.to_text()
