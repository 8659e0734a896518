"""The layout and the geometry of drawings: no overlap, one row per depth."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmctx.visualization.drawing.diagram import Box, Diagram, children_of
from dualmctx.visualization.drawing.geometry import LABEL, height_of, label_of, measure, text_length
from dualmctx.visualization.drawing.layout import lay_out
from games import Picture

# Entry i - 1 chooses the parent of node i among the nodes before it.
TREES = st.lists(st.floats(0, 1, exclude_max=True), max_size=60).map(
    lambda draws: [-1, *(int(x * i) for i, x in enumerate(draws, start=1))]
)


def below(parents: list[int]) -> list[list[int]]:
    return [[i for i, p in enumerate(parents) if p == parent] for parent in range(len(parents))]


@given(TREES)
def test_boxes_of_one_depth_are_in_a_row_without_overlap(parents: list[int]) -> None:
    children = below(parents)
    places = lay_out(children)
    rows: dict[int, list[float]] = {}
    for i, place in enumerate(places):
        assert place.depth == (0 if i == 0 else places[parents[i]].depth + 1)
        rows.setdefault(place.depth, []).append(place.x)
    assert min(place.x for place in places) == pytest.approx(0, abs=1e-9)
    for row in rows.values():
        assert all(b - a >= 1 - 1e-9 for a, b in pairwise(sorted(row)))
    for i, siblings in enumerate(children):
        if siblings:
            xs = [places[child].x for child in siblings]
            assert xs == sorted(xs)
            assert places[i].x == pytest.approx((xs[0] + xs[-1]) / 2)


def test_equal_subtrees_have_equal_shapes() -> None:
    # Both children of the root have three leaves.
    places = lay_out([[1, 2], [3, 4, 5], [6, 7, 8], *([] for _ in range(6))])
    assert [p.x for p in places] == [2.5, 1, 4, 0, 1, 2, 3, 4, 5]


def test_a_leaf_fits_beside_a_deep_subtree() -> None:
    places = lay_out([[1, 2], [3], [], [4, 5, 6], [], [], []])
    # The leaf is one width from its sibling, above the grandchildren.
    assert places[2].x - places[1].x == 1


def test_deep_chains_do_not_reach_the_recursion_limit() -> None:
    number = 1500
    places = lay_out([[i + 1] for i in range(number - 1)] + [[]])
    assert places[-1] == (0, number - 1)


PICTURE = Picture("", (("x", ".", "o"), ("10", "", "."), ("x", "o", ".")))


def diagram(parents: list[int], direction: str) -> Diagram:
    """Makes boxes of various sizes in depth-first order, as the package does."""
    order, stack = [], [0]
    while stack:
        stack += reversed(below(parents)[node := stack.pop()])
        order.append(node)
    boxes = [
        Box(
            name=f"n{i}",
            parent=-1 if i == 0 else order.index(parents[i]),
            move="" if i == 0 else "m" * (i % 23),
            note="P 0.50" * (i % 2),
            lines=("a line",) * (1 + i % 4),
            cells=(),
            title="",
            style="summary" if i % 7 == 6 else "plain",
            picture=PICTURE if i % 3 == 0 else None,
        )
        for i in order
    ]
    return Diagram("", (), (), tuple(boxes), direction)


@pytest.mark.parametrize("direction", ["down", "right"])
@given(parents=TREES)
def test_boxes_with_their_labels_do_not_overlap(direction: str, parents: list[int]) -> None:
    drawn = diagram(parents, direction)
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
    for i, children in enumerate(children_of(drawn)):
        for child in children:
            points = placed.edges[child]
            assert points is not None
            # Between the boxes, the edge stays in the room between their rows or columns.
            axis = 1 if direction == "down" else 0
            steps = [point[axis] for point in points]
            assert steps == sorted(steps)
            assert rectangles[i][axis] <= steps[0]
            assert steps[-1] <= rectangles[child][axis + 2]
