"""A finished drawing of a tree, which can be displayed, converted and saved."""

import dataclasses
import os
import re
from pathlib import Path

from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.visualization.drawing.diagram import Box, Diagram, printable
from dualmctx.visualization.drawing.svg import to_svg

SUFFIXES: tuple[str, ...] = (".svg", ".dot")
"""The formats of `Drawing.save`."""
_DOT_STYLES = {
    "plain": "",
    "partial": ', style="dashed"',
    "final": ", peripheries=2",
    "summary": ', shape="plaintext"',
}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """A drawing of a tree; Jupyter displays it. Equal trees give equal texts.

    Attributes:
      diagram: the boxes and their texts.
    """

    diagram: Diagram

    def to_svg(self) -> str:
        """Returns an SVG document, which needs no other file."""
        return to_svg(self.diagram)

    def to_dot(self) -> str:
        """Returns a graph in the DOT language of Graphviz; boards are rows of letters."""
        lines = [
            "digraph tree {",
            f'  graph [label={_quote(*self.diagram.heading)}, labelloc="t", labeljust="l", '
            'rankdir="LR"];',
            '  node [shape="box", fontname="monospace", fontsize=10];',
            '  edge [fontname="monospace", fontsize=10];',
        ]
        for box in self.diagram.boxes:
            label, title = _quote(*_board(box), *box.lines), _quote(box.title)
            lines.append(f"  {box.name} [label={label}, tooltip={title}{_DOT_STYLES[box.style]}];")
        for box in self.diagram.boxes:
            if box.parent >= 0:
                label = _quote(*filter(None, (box.label, box.note)))
                style = ', style="dotted"' if box.style == "summary" else ""
                edge = f"{self.diagram.boxes[box.parent].name} -> {box.name}"
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
        return f"<{type(self).__name__} with {len(self.diagram.boxes)} boxes>"


def _board(box: Box) -> list[str]:
    """Returns the rows of a board as text."""
    if box.picture is None:
        return []
    width = max((len(cell) for row in box.picture.rows for cell in row), default=0)
    return [" ".join(cell.rjust(width) for cell in row) for row in box.picture.rows]


def _quote(*lines: str) -> str:
    r"""Returns lines as one quoted string; `\n` separates them, and a backslash is escaped."""
    return '"' + "\\n".join(re.sub(r'(["\\])', r"\\\1", printable(line)) for line in lines) + '"'
