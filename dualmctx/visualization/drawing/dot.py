"""Writes a diagram in the DOT language of Graphviz."""

import re

from dualmctx.visualization.drawing.diagram import Box, Diagram, explain_borders, printable

_STYLES = {
    "plain": "",
    "partial": ', style="dashed"',
    "final": ", peripheries=2",
    "summary": ', shape="plaintext"',
}


def to_dot(diagram: Diagram) -> str:
    """Writes a directed graph with the texts of a diagram; boards are rows of letters."""
    heading = (diagram.title, *diagram.legend, *explain_borders(diagram))
    lines = [
        "digraph tree {",
        f'  graph [label={_quote(*filter(None, heading))}, labelloc="t", labeljust="l", '
        f'rankdir="{"TB" if diagram.direction == "down" else "LR"}"];',
        '  node [shape="box", fontname="monospace", fontsize=10];',
        '  edge [fontname="monospace", fontsize=10];',
    ]
    for box in diagram.boxes:
        label = _quote(*_board(box), *box.lines)
        title = _quote(box.title)
        lines.append(f"  {box.name} [label={label}, tooltip={title}{_STYLES[box.style]}];")
    for box in diagram.boxes:
        if box.parent >= 0:
            label = _quote(*filter(None, (box.label, box.note)))
            width = 3.0 if box.is_best else 1 + 4 * box.weight
            style = ', style="dotted"' if box.style == "summary" else ""
            parent = diagram.boxes[box.parent].name
            lines.append(f"  {parent} -> {box.name} [label={label}, penwidth={width:.2f}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _board(box: Box) -> list[str]:
    """Returns the rows of a board as text."""
    if box.picture is None:
        return []
    width = max((len(cell) for row in box.picture.rows for cell in row), default=0)
    return [" ".join(cell.rjust(width) for cell in row) for row in box.picture.rows]


def _quote(*lines: str) -> str:
    r"""Returns lines as one quoted string; `\n` separates them, and a backslash is escaped."""
    return '"' + "\\n".join(re.sub(r'(["\\])', r"\\\1", printable(line)) for line in lines) + '"'
