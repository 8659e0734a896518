"""The geometry of drawings: no overlap, one column per depth, parents beside their children."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmctx.visualization.diagram import (
    LABEL,
    Box,
    height_of,
    label_of,
    lay_out,
    measure,
    text_length,
)
from games import Picture

# Entry i - 1 chooses the parent of node i among the nodes before it.
TREES = st.lists(st.floats(0, 1, exclude_max=True), max_size=30).map(
    lambda draws: [-1, *(int(x * i) for i, x in enumerate(draws, start=1))]
)


def below(parents: list[int]) -> list[list[int]]:
    return [[i for i, p in enumerate(parents) if p == parent] for parent in range(len(parents))]


def depth_first(parents: list[int]) -> list[int]:
    """Returns the parents of the same tree, numbered in depth-first order."""
    order: list[int] = []
    stack = [0]
    while stack:
        stack += reversed(below(parents)[node := stack.pop()])
        order.append(node)
    return [-1 if i == 0 else order.index(parents[i]) for i in order]


def test_deep_chains_do_not_reach_the_recursion_limit() -> None:
    number = 1500
    assert lay_out(range(-1, number - 1))[-1] == (number - 1, 0)


PICTURE = Picture("", (("x", ".", "o"), ("10", "", "."), ("x", "o", ".")))


def make_boxes(parents: list[int]) -> list[Box]:
    """Makes boxes of various sizes."""
    return [
        Box(
            name=f"n{i}",
            parent=parent,
            move="" if i == 0 else "m" * (i % 23),
            note="P 0.50" * (i % 2),
            lines=("a line",) * (1 + i % 4),
            title="",
            style="summary" if i % 7 == 6 else "plain",
            picture=PICTURE if i % 3 == 0 else None,
        )
        for i, parent in enumerate(parents)
    ]


@settings(max_examples=30)
@given(TREES.map(depth_first))
def test_boxes_with_their_labels_do_not_overlap(parents: list[int]) -> None:
    boxes = make_boxes(parents)
    placed = measure(boxes)
    rectangles = []
    for box, (x, y) in zip(boxes, placed.corners, strict=True):
        half = max(placed.box, text_length(label_of(box))) / 2
        rectangles.append((x - half, y, x + half, y + LABEL + height_of(box)))
        assert placed.box >= max(map(text_length, box.lines))
    for left, top, right, bottom in rectangles:
        assert left >= -1e-9
        assert top >= -1e-9
        assert right <= placed.width + 1e-9
        assert bottom <= placed.height + 1e-9
    for i, a in enumerate(rectangles):
        for b in rectangles[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    for parent, siblings in enumerate(below(parents)):
        if siblings:
            first, last = (placed.corners[siblings[i]] for i in (0, -1))
            assert first[0] == last[0] > placed.corners[parent][0]
            assert placed.corners[parent][1] == pytest.approx((first[1] + last[1]) / 2)
    for child, parent in enumerate(parents[1:], 1):
        points = placed.edges[child]
        assert points is not None
        # Between the boxes, the edge stays in the room between their columns.
        steps = [x for x, _ in points]
        assert steps == sorted(steps)
        assert rectangles[parent][0] <= steps[0]
        assert steps[-1] <= rectangles[child][2]
