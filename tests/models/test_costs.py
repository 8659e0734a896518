"""The cost of a move: simulations, evaluations of positions, and blocks of the network."""

import dataclasses
from typing import Any

import pytest

from documents import table
from dualmctx import AlphaGo, AlphaZero, Chain, Dual
from dualmctx.models.costs import MoveCost, move_cost
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
    networks = SeparateTrunks(9, head_depths=(2, 4)), SEPARATE
    blocks = {
        mix: [
            move_cost(dataclasses.replace(ROLLOUTS, rollout_mix=mix), network).blocks
            for network in networks
        ]
        for mix in (0.5, 1.0)
    }
    assert blocks == {0.5: [85 * 24, 85 * 27], 1.0: [85 * 24, 85 * 24]}
