"""Places the boxes of a tree: one row for each depth, no overlap, parents above their children."""

from collections.abc import Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """The place of a box.

    Attributes:
      x: the centre of the box, in widths of a box; the leftmost box is at 0.
      depth: the row, from 0.
    """

    x: float
    depth: int


def lay_out(children: Sequence[Sequence[int]]) -> list[Place]:
    """Places a tree as narrowly as its subtrees allow.

    Two boxes of one row are at least one width apart. A parent is in the middle between its first
    and its last child. Equal subtrees have equal shapes. The result depends on nothing else than
    the tree.

    Args:
      children: the children of each box, from left to right; box 0 is the root, and parents come
        before their children.

    Returns:
      The place of each box.

    Source: Reingold, Tilford (1981), "Tidier drawings of trees". Our subtrees keep their whole
    contours instead of threads, which takes time proportional to the nodes times the depth.
    """
    # The distance of each box from its parent, and the left and the right edge of each subtree by
    # depth, both relative to the top of the subtree.
    shifts = [0.0] * len(children)
    contours: list[list[tuple[float, float]]] = [[] for _ in children]
    for box in reversed(range(len(children))):
        positions, outline = _join([contours[child] for child in children[box]])
        middle = (positions[0] + positions[-1]) / 2 if positions else 0.0
        for child, x in zip(children[box], positions, strict=True):
            shifts[child], contours[child] = x - middle, []
        contours[box] = [(0.0, 0.0), *((left - middle, right - middle) for left, right in outline)]
    lowest = min(left for left, _ in contours[0])
    places = [Place(-lowest, 0)] * len(children)
    for box, below in enumerate(children):
        for child in below:
            places[child] = Place(places[box].x + shifts[child], places[box].depth + 1)
    return places


def _join(
    contours: Sequence[Sequence[tuple[float, float]]],
) -> tuple[list[float], list[tuple[float, float]]]:
    """Puts subtrees beside each other; returns the places of their tops and the joint contour."""
    positions: list[float] = []
    joint: list[tuple[float, float]] = []
    for contour in contours:
        gaps = [right + 1 - left for (_, right), (left, _) in zip(joint, contour, strict=False)]
        x = max(gaps, default=0.0)
        positions.append(x)
        moved = [(left + x, right + x) for left, right in contour]
        both = [(a[0], b[1]) for a, b in zip(joint, moved, strict=False)]
        joint = both + joint[len(moved) :] + moved[len(both) :]
    return positions, joint
