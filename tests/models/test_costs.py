"""The cost of a move, and budgets of equal cost, in blocks and in seconds."""

import dataclasses
from typing import Any

import pytest

from documents import table
from dualmctx import AlphaGo, AlphaZero, Chain, Dual
from dualmctx.models.costs import MoveCost, move_cost, scale_to_cost, scale_to_seconds, split
from dualmctx.models.network import Network, SeparateTrunks
from dualmctx.types import tree_budgets
from policy_table import COUNTS, VALUE_DEPTHS

TWO_HEADS = Network(9, head_depths=(2, 4))
SEPARATE = SeparateTrunks(9, head_depths=(2, 4), value_depth=3)
[ROLLOUTS] = [policy for name, policy, *_ in COUNTS if name == "rollouts of 10 moves"]
ENDLESS = dataclasses.replace(ROLLOUTS, rollout_length=None)


@pytest.mark.parametrize(("name", "policy", "depths", "options"), COUNTS)
def test_costs_match_the_documented_table(
    name: str, policy: Any, depths: Any, options: dict
) -> None:
    rows = table("docs/variants.md", "variant | formula")
    row = next(row for row in rows if name in row["variant"])
    network = Network(9, head_depths=depths)
    if name in VALUE_DEPTHS:
        network = SeparateTrunks(9, head_depths=depths, value_depth=VALUE_DEPTHS[name])
    cost = move_cost(policy, network, **options)
    assert cost.blocks == int(row["blocks per move"].split(" = ")[1])
    assert cost.simulations == sum(tree_budgets(policy))


@pytest.mark.parametrize(
    ("policy", "network", "cost"),
    [
        (ROLLOUTS, TWO_HEADS, MoveCost(85, 85 * 11, 85 * (4 + 10 * 2))),
        # Unlimited rollouts have no fixed cost.
        (ENDLESS, TWO_HEADS, MoveCost(85, None, None)),
        (dataclasses.replace(ENDLESS, rollout_mix=0.0), TWO_HEADS, MoveCost(85, 85, 340)),
        (Dual((3, 0), 1), TWO_HEADS, MoveCost(3, 3, 6)),
        # Without a first tree, Dual is AlphaZero with the final head.
        (Dual((0, 35)), TWO_HEADS, MoveCost(35, 70, 35 * 4)),
        # The second tree must find 30 of its nodes by itself.
        (Dual((5, 35)), TWO_HEADS, MoveCost(40, 70, 5 * 4 + 30 * 4)),
        # Of four nodes in the third tree, all heads evaluate one of the first and three others.
        (
            Chain((1, 1, 4), 1),
            Network(9, head_depths=(1, 2, 4)),
            MoveCost(6, 12, 4 * (1 + 1 + 3)),
        ),
        # Separate networks resume nothing, and their value trunk counts.
        (Dual((50, 35)), SEPARATE, MoveCost(85, 85, 50 * 2 + 35 * (4 + 3))),
        (AlphaZero(10), SEPARATE, MoveCost(10, 10, 10 * (4 + 3))),
        (AlphaZero(10, head=0), SEPARATE, MoveCost(10, 10, 10 * 2)),
        (
            AlphaGo(10, rollout_length=5),
            SeparateTrunks(9, head_depths=(4,), value_depth=3),
            MoveCost(10, 60, 10 * (4 + 3 + 5 * 4)),
        ),
    ],
)
def test_cost_of_a_move(policy: Any, network: Any, cost: MoveCost) -> None:
    assert move_cost(policy, network) == cost


def test_search_that_reads_no_value_does_not_pay_for_its_trunk() -> None:
    blocks = [
        move_cost(dataclasses.replace(ROLLOUTS, rollout_mix=mix), SEPARATE).blocks
        for mix in (0.5, 1.0)
    ]
    assert blocks == [85 * 27, 85 * 24]


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
    for number in range(sum(map(bool, shape)), 100):
        found = split(number, shape)
        assert sum(found) == number
        assert all((x > 0) == (y > 0) for x, y in zip(found, shape, strict=True))
        gaps = [x - number * y / sum(shape) for x, y in zip(found, shape, strict=True)]
        # Whole numbers next to a share, save where a tree keeps its one simulation.
        assert all(abs(gap) < 1 or 1 in found for gap in gaps)


@pytest.mark.parametrize(
    ("shape", "depths", "target"),
    [
        *(((50, 35), (2, 2), 170), ((40, 25, 20), (4, 6, 3), 1000), ((85,), (3,), 3)),
        *(((1, 10), (3, 0), 170), ((5, 0), (4, 6), 1000), ((40, 25, 20), (3, 0, 9), 3)),
    ],
)
def test_blocks_agree_within_a_step(
    shape: tuple[int, ...], depths: tuple[int, ...], target: float
) -> None:
    def cost(simulations: tuple[int, ...]) -> float:
        return sum(x * y for x, y in zip(simulations, depths, strict=True))

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
