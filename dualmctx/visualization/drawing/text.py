"""Writes the drawing of a tree as text for terminals."""

from dualmctx.visualization.drawing.diagram import Box, Diagram, children_of, printable


def to_text(diagram: Diagram) -> str:
    """Writes a table: the numbers on the left, then the tree, indented by depth."""
    rows = [*(_cells(diagram, box) for box in diagram.boxes)]
    widths = [max(map(len, column)) for column in zip(diagram.columns, *rows, strict=True)]
    numbers = [_line(cells, widths) for cells in (diagram.columns, *rows)]
    moves = ["move", *_branches(diagram)]
    table = [f"{left}  {right}".rstrip() for left, right in zip(numbers, moves, strict=True)]
    heading = [*([diagram.title] if diagram.title else []), *diagram.legend, ""]
    return "\n".join(map(printable, (*heading, *table))) + "\n"


def _cells(diagram: Diagram, box: Box) -> tuple[str, ...]:
    return box.cells + ("",) * (len(diagram.columns) - len(box.cells))


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _branches(diagram: Diagram) -> list[str]:
    """Returns the part of the tree on each line, such as "│  ├─ 3"."""
    below = children_of(diagram)
    indents = [""] * len(diagram.boxes)
    texts: list[str] = []
    for i, box in enumerate(diagram.boxes):
        if box.parent < 0:
            texts.append("root")
            continue
        is_last = below[box.parent][-1] == i
        texts.append(indents[box.parent] + ("└─ " if is_last else "├─ ") + _name(box))
        indents[i] = indents[box.parent] + ("   " if is_last else "│  ")
    return texts


def _name(box: Box) -> str:
    if box.style == "summary":
        return f"({box.lines[0]})"
    return box.label + ("  (game over)" if box.style == "final" else "")
