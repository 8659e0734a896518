"""Budgets of equal cost: simulations split among trees, scaled to blocks and to seconds."""

import json

import pytest

from dualmctx.models.costs import scale_to_cost, scale_to_seconds, split


@pytest.mark.parametrize(
    ("total", "shape", "expected"),
    [
        (85, (50, 35), (50, 35)),
        (10, (50, 35), (6, 4)),
        (2, (50, 35), (1, 1)),
        (7, (50, 0), (7, 0)),
        (1, (0, 3), (0, 1)),
        # Two shares are below 1: theirs is more than they would have.
        (6, (200, 20, 15), (4, 1, 1)),
        (10, (100, 5), (9, 1)),
    ],
)
def test_simulations_are_split_in_proportion(
    total: int, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert split(total, shape) == expected
    # Budgets are written as JSON.
    assert json.loads(json.dumps(split(total, shape))) == [*expected]
    for number in range(sum(map(bool, shape)), 200):
        found = split(number, shape)
        assert sum(found) == number
        assert all((x > 0) == (y > 0) for x, y in zip(found, shape, strict=True))
        gaps = [x - number * y / sum(shape) for x, y in zip(found, shape, strict=True)]
        # Whole numbers next to a share, save where a tree keeps its one simulation.
        assert all(abs(gap) < 1 or 1 in found for gap in gaps)


@pytest.mark.parametrize("shape", [(50, 35), (40, 25, 20), (85,), (1, 10), (5, 0)])
@pytest.mark.parametrize("depths", [(2, 2, 1), (4, 6, 3), (3, 0, 9)])
@pytest.mark.parametrize("target", [3, 170, 1000])
def test_blocks_agree_within_a_step(
    shape: tuple[int, ...], depths: tuple[int, ...], target: float
) -> None:
    def cost(simulations: tuple[int, ...]) -> float:
        return sum(x * y for x, y in zip(simulations, depths, strict=False))

    found = scale_to_cost(shape, cost, target)
    least = sum(map(bool, shape))
    costs = [cost(split(total, shape)) for total in range(least, 4000)]
    assert abs(cost(found) - target) == min(abs(x - target) for x in costs)


def test_seconds_agree_where_time_is_a_line() -> None:
    asked: list[int] = []

    def measure(simulations: tuple[int, ...]) -> float:
        asked.append(sum(simulations))
        return 0.004 + 0.0001 * sum(simulations)

    rows = scale_to_seconds((50, 35), measure, 0.03)
    assert rows[-1].simulations == split(260, (50, 35))
    assert rows[-1].seconds == pytest.approx(0.03)
    # As given, by proportion, on the line.
    assert asked[:3] == [85, round(85 * 0.03 / 0.0125), 260]
    assert len(asked) == len(set(asked)) <= 4
    assert {row.simulations for row in rows} == {split(total, (50, 35)) for total in asked}


def test_seconds_end_at_the_nearest_that_was_measured() -> None:
    noise = iter((1.0, 0.5, 0.7))
    rows = scale_to_seconds((8,), lambda simulations: next(noise), 0.8)
    assert rows[-1].seconds == 0.7
    # A target out of reach leaves each tree its one simulation.
    rows = scale_to_seconds((8, 8), lambda simulations: 1.0 + sum(simulations), 0.01)
    assert (rows[-1].simulations, rows[-1].seconds) == ((1, 1), 3.0)
