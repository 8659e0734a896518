"""Searches, trees and heads have the same names in the page, in recordings and in drawings."""

import dataclasses
from typing import Any

import pytest

from dualmctx.commands.search import build_search
from dualmctx.policies import (
    AlphaZero,
    Chain,
    Dual,
    Gumbel,
    head_names,
    tree_names,
    variant_of,
    with_options,
)
from dualmctx.types import Policy
from dualmctx.web.descriptions import describe_trained, describe_weights, list_searches
from untrained import make_untrained

THREE_HEADS = ("--network.head-depths", "1", "2", "3", "--network.num-blocks", "3")


@pytest.mark.parametrize(
    ("number", "heads", "trees"),
    [
        (1, ["final"], ["tree"]),
        (2, ["intermediate", "final"], ["small", "large"]),
        (3, ["intermediate 1", "intermediate 2", "final"], ["tree 1", "tree 2", "tree 3"]),
    ],
)
def test_names_of_heads_and_trees(number: int, heads: list[str], trees: list[str]) -> None:
    assert (head_names(number), tree_names(number)) == (heads, trees)


def test_search_outside_the_registry_has_the_name_of_its_class() -> None:
    @dataclasses.dataclass(frozen=True)
    class Own(AlphaZero):
        pass

    assert [variant_of(x) for x in (AlphaZero(2), Dual(), Own(2))] == ["alphazero", "dual", "Own"]


def builder(record: dict[str, Any], default: Policy | None = None) -> Any:
    def build(variant: str | None) -> Policy:
        if variant is None and default is not None:
            return default
        return build_search(record, variant).for_evaluation()

    return build


def test_page_names_three_heads_and_trees() -> None:
    """The recordings of test_recording_content name two of them."""
    trained = make_untrained("hsr", *THREE_HEADS)
    about = describe_trained(trained, builder(trained.record))
    assert about["heads"] == head_names(3)
    [chain] = [row for row in about["searches"] if row["variant"] == "chain"]
    assert (chain["name"], chain["trees"]) == ("chain", tree_names(3))


OWN = {"search": {"variant": "gumbel", "num_simulations": 32}}


@pytest.mark.parametrize(
    ("default", "names", "labels"),
    [
        # The default is the search of the training.
        (None, [None, "dual"], ["gumbel (own)", "dual"]),
        # The default replaces it.
        (AlphaZero(32), [None, "own"], ["alphazero (default)", "gumbel (own)"]),
        # The default is a variant with its default options, which is left out of the others.
        (Dual(), [None, "own", "mpv"], ["dual (default)", "gumbel (own)", "mpv"]),
    ],
)
def test_searches_say_whether_they_are_the_default_or_own(
    default: Policy | None, names: list[str | None], labels: list[str]
) -> None:
    policy = None if default is None else default.for_evaluation()
    rows = list_searches(builder(OWN, policy), 2)
    assert [row["name"] for row in rows][: len(names)] == names
    assert [row["label"] for row in rows][: len(labels)] == labels
    assert len({row["name"] for row in rows}) == len(rows)
    assert "chain" not in [row["variant"] for row in rows]


def test_search_of_a_training_that_cannot_be_rebuilt_is_left_out() -> None:
    rows = list_searches(builder({"search": {"variant": "nosuch"}}, AlphaZero(4)), 2)
    assert [row["label"] for row in rows][:2] == ["alphazero (default)", "dual"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (AlphaZero(4), "The policy is the share of the visits; the ranks follow it."),
        (with_options(AlphaZero(4), visit_weights="smoothed"), "visits, one added to each;"),
        (with_options(AlphaZero(4), regularized=("act", "learn")), "from the prior and Q ("),
        (Dual(), "the share of the visits of the small tree;"),
        (Dual((0, 8)), "the share of the visits of the large tree;"),
        (Dual(action_weights="regularized"), "the prior and the Q of the large tree ("),
        (Dual(action_weights="large_visits"), "visits of the large tree, one added to each;"),
        (Dual(action_weights="all_visits"), "the visits of all trees;"),
        (Chain((4, 2, 1), 1), "the share of the visits of tree 1;"),
        (Gumbel(4), "which has rank 1; the other ranks follow the policy."),
    ],
)
def test_the_policy_is_explained(policy: Policy, expected: str) -> None:
    assert expected in describe_weights(policy)
