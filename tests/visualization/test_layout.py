"""The layout and the geometry of drawings: no overlap, one column per depth."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmctx.visualization.diagram import (
    LABEL,
    Box,
    Diagram,
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


@pytest.mark.slow
@given(TREES.map(depth_first))
def test_boxes_of_one_depth_are_in_a_column_without_overlap(parents: list[int]) -> None:
    places = lay_out(parents)
    columns: dict[int, list[float]] = {}
    for i, (depth, row) in enumerate(places):
        assert depth == (0 if i == 0 else places[parents[i]][0] + 1)
        columns.setdefault(depth, []).append(row)
    assert min(row for _, row in places) == 0
    for rows in columns.values():
        assert all(b - a >= 1 for a, b in pairwise(rows))
    for i, siblings in enumerate(below(parents)):
        if siblings:
            assert places[i][1] == (places[siblings[0]][1] + places[siblings[-1]][1]) / 2


def test_deep_chains_do_not_reach_the_recursion_limit() -> None:
    number = 1500
    assert lay_out(range(-1, number - 1))[-1] == (number - 1, 0)


PICTURE = Picture("", (("x", ".", "o"), ("10", "", "."), ("x", "o", ".")))


def diagram(parents: list[int]) -> Diagram:
    """Makes boxes of various sizes."""
    boxes = [
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
    return Diagram("", (), tuple(boxes))


@given(TREES.map(depth_first))
def test_boxes_with_their_labels_do_not_overlap(parents: list[int]) -> None:
    drawn = diagram(parents)
    placed = measure(drawn)
    rectangles = []
    for box, (x, y) in zip(drawn.boxes, placed.corners, strict=True):
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
    for child, parent in enumerate(parents[1:], 1):
        points = placed.edges[child]
        assert points is not None
        # Between the boxes, the edge stays in the room between their columns.
        steps = [x for x, _ in points]
        assert steps == sorted(steps)
        assert rectangles[parent][0] <= steps[0]
        assert steps[-1] <= rectangles[child][2]
