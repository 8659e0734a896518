"""Options out of range, and options that exclude each other: one line with value and remedy."""

import math
import re
from typing import Any

import numpy as np
import pytest

from documents import table
from dualmctx import MPV, AlphaGo, AlphaZero, Chain, Contempt, Dual, MuZero, Root, with_options
from dualmctx.errors import UserError
from dualmctx.policies import REGISTRY, named_options

NAN, INFINITY, LARGE = float("nan"), math.inf, 2**31
POLICIES = {name: row.policy() for name, row in REGISTRY.items()}
# By option and variant, whether docs/variants.md allows them together.
ALLOWED = {
    row.pop("option").strip("`"): row for row in table("docs/variants.md", "option | alphazero")
}
# Options, values that no variant accepts, and the words of the remedy.
RANGES: list[tuple[str, tuple[Any, ...], str]] = [
    ("window max_depth max_children leaves_per_step speculation rollout_length", (0, -1),
     "at least 1"),
    ("max_num_considered_actions", (0, -1), "at least 1"),
    ("virtual_loss reuse_capacity", (-1,), "at least 0"),
    ("window max_depth max_children leaves_per_step virtual_loss", (LARGE,), "at most 2147483647"),
    ("reuse_capacity rollout_length max_num_considered_actions", (LARGE,), "at most 2147483647"),
    ("window max_depth max_children rollout_length", (2.5, 2.0), "a whole number, at least 1, or"),
    ("frozen_visit_limit", (0, NAN, 2.5, LARGE, -LARGE), "2147483647 at most in size"),
    ("head", (0.5,), "a whole number, -1 for the final head"),
    ("root_head", (0.5, -1), "a whole number other than head"),
    ("num_rounds", (0, -3, 2.5, 10**4), "a whole number from 1 to the"),
    ("c_puct dirichlet_alpha frozen_temperature pb_c_base rave_visits", (0.0, -1.0, NAN, INFINITY),
     "positive and finite"),
    ("temperature pb_c_init gumbel_scale", (-1.0, NAN, INFINITY), "at least 0 and finite"),
    ("explore_fraction explore_decay dirichlet_fraction minimax_mix", (-0.01, 1.5, NAN),
     "between 0 and 1"),
    ("value_mix prior_mix rollout_mix root_mix", (-0.01, 1.01, NAN), "between 0 and 1"),
    ("action_weights", ("visits",), "one of small_visits, all_visits"),
    ("visit_weights", ("all",), "plain or smoothed"),
    ("kernels", ("cuda",), "one of auto, on, off, interpret"),
    ("rollout_policy", ("best",), "intermediate or uniform"),
    ("regularized", ("act", ("act", "think"), ["act", "act"]), "act, search and learn, each at mo"),
    ("schedule", ("large_first",), "small_first or interleaved, or 0 or 1 for each step"),
    ("schedule", (3, (0, 1, 1)), "50 times 0 and 35 times 1"),
]  # fmt: skip


def assert_refused(policy: Any, changes: dict[str, Any], words: str) -> None:
    """Checks the line: the last option with its value, and the remedy."""
    with pytest.raises(UserError, match=rf"^{[*changes][-1]} is [^\n]+; it must [^\n]+$") as info:
        with_options(policy, **changes)
    value = [*changes.values()][-1]
    for number in value if isinstance(value, tuple | list) else (value,):
        assert str(number) in str(info.value)
    assert re.search(words, str(info.value)), info.value


@pytest.mark.parametrize(("options", "values", "words"), RANGES)
def test_values_out_of_range_are_refused_by_each_variant(
    options: str, values: tuple[Any, ...], words: str
) -> None:
    for option in options.split():
        having = [x for x in POLICIES if option in named_options(POLICIES[x])]
        having = [x for x in having if ALLOWED.get(option, {}).get(x) != "no"]
        assert having
        for name in having:
            for value in values:
                assert_refused(POLICIES[name], {option: value}, words)


ONE, SEVERAL = ("alphazero", "contempt", "alphago", "gumbel", "muzero"), ("dual", "chain", "mpv")


def test_budgets_out_of_range_are_refused_by_each_variant() -> None:
    assert {*ONE, *SEVERAL} == POLICIES.keys()
    budgets = {0: "at least 1", -1: "at least 1", 2.5: "a whole number", LARGE: "at most 21474836"}
    for name in ONE:
        for value, words in budgets.items():
            assert_refused(POLICIES[name], {"num_simulations": value}, words)
    for name in SEVERAL:
        for value in (85, (50,), (50, 20.5), (-1, 5), (0, 0)):
            assert_refused(POLICIES[name], {"num_simulations": value}, "two numbers")
        assert_refused(POLICIES[name], {"num_simulations": (LARGE, 1)}, "at most 2147483647")


# Options that a variant refuses, or that exclude each other: the last one is named.
CONFLICTS: list[tuple[Any, dict[str, Any], str]] = [
    (Dual(), {"num_simulations": (0, 0)}, "not both 0"),
    (Dual(), {"num_rounds": 36}, "1 to the large tree.s 35 simul"),
    (Chain(), {"num_simulations": (5, 0, 2)}, "two numbers or more"),
    (Chain((50, 40)), {"num_rounds": 41}, "1 to the 40"),
    (MPV(), {"num_simulations": (5, 0)}, "two numbers, each at least 1"),
    (MPV((2, 1)), {"schedule": (0, 1, 1)}, "2 times 0 and 1 times 1"),
    (AlphaZero(), {"rave_visits": 9.0, "max_children": 3}, "none with max_children"),
    (AlphaZero(), {"window": 3, "leaves_per_step": 2}, "1 with a window"),
    (AlphaZero(), {"minimax_mix": 0.4, "leaves_per_step": 2}, "1 with minimax_mix or rave_visits"),
    (AlphaZero(), {"rave_visits": 9.0, "leaves_per_step": 2}, "1 with minimax_mix or rave_visits"),
    (AlphaZero(), {"regularized": ("search",), "leaves_per_step": 2}, "1 with regularized search"),
    (AlphaZero(), {"regularized": ("learn", "act"), "visit_weights": "smoothed"},
     "plain with regularized act and learn"),
    (AlphaZero(), {"leaves_per_step": 2, "speculation": 4}, "1 with several leaves per step"),
    (AlphaZero(), {"window": 3, "speculation": 4}, "1 with a window, unless explore_fraction is 0"),
    (AlphaZero(), {"regularized": ("search",), "speculation": 4}, "1 with regularized search"),
    (Contempt(frozen_visit_limit=None), {"speculation": 4}, "1 in Contempt, whose rule samples"),
    (AlphaGo(), {"speculation": 4}, "1 in AlphaGo, whose rollouts are random"),
    (Contempt(), {"virtual_loss": 3}, "0 with a frozen_visit_limit"),
    (Contempt(), {"leaves_per_step": 4}, "1 with a frozen_visit_limit"),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "changes", "words"), CONFLICTS)
def test_options_that_exclude_each_other_are_refused(
    policy: Any, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=rf"^\w+ is [^\n]+; it must be [^\n]*{words}[^\n]*$"):
        with_options(policy, **changes)


REASONS = {
    "leaves_per_step": "1 in {}, which evaluates leaves in rounds",
    "virtual_loss": "0 in {}, which evaluates leaves in rounds",
    "speculation": "1 in {}, which evaluates leaves in rounds",
    "regularized": "empty in {}, whose action_weights",
    "visit_weights": "plain in {}, whose action_weights",
    "minimax_mix": "0 in {}, whose trees correct each other",
    "rave_visits": "none in {}, which backs up the leaves of a round together",
}
OTHER: dict[str, Any] = {"leaves_per_step": 4, "virtual_loss": 3, "speculation": 4}
OTHER |= {"regularized": ("act",), "minimax_mix": 0.4, "visit_weights": "smoothed"}
OTHER |= {"rave_visits": 9.0, "max_children": 3}


def test_variants_refuse_options_of_others_with_the_reason() -> None:
    for option, reason in REASONS.items():
        for cls in (Dual, Chain, MPV):
            assert_refused(cls(), {option: OTHER[option]}, reason.format(cls.__name__))
    options = ("leaves_per_step", "virtual_loss", "speculation", "visit_weights", "max_children")
    for option in options:
        reason = "in MuZero, which uses mctx's rules"
        assert_refused(MuZero(), {option: OTHER[option]}, reason)


@pytest.mark.parametrize(
    ("cls", "changes"),
    [
        (AlphaZero, {"window": 1, "max_depth": 1, "temperature": 0.0, "dirichlet_fraction": 1.0}),
        (AlphaZero, {"window": LARGE - 1, "max_depth": LARGE - 1}),
        (AlphaGo, {"rollout_mix": 1, "rollout_length": 1}),
        (Contempt, {"frozen_visit_limit": 1 - LARGE}),
        (Contempt, {"frozen_visit_limit": None, "leaves_per_step": 4}),
        (AlphaZero, {"window": 3, "explore_fraction": 0, "speculation": LARGE - 1}),
        (Dual, {"num_simulations": (5, 0)}),
        (Dual, {"num_simulations": (0, 3), "num_rounds": 3, "value_mix": 0, "prior_mix": 1}),
        (Dual, {"num_simulations": (np.int64(9), np.int32(3)), "num_rounds": np.int64(3)}),
        (Contempt, {"num_simulations": np.int32(4), "frozen_visit_limit": np.int64(-2)}),
    ],
)
def test_the_edges_of_the_ranges_are_allowed(cls: Any, changes: dict[str, Any]) -> None:
    found = named_options(with_options(cls(), **changes))
    assert {name: found[name].value for name in changes} == changes


def test_an_option_changes_the_group_that_is_given_with_it_in_any_order() -> None:
    expected = AlphaZero(root=Root(dirichlet_alpha=0.5, temperature=0.0))
    group = Root(dirichlet_alpha=0.5)
    assert with_options(AlphaZero(), root=group, temperature=0.0) == expected
    assert with_options(AlphaZero(), temperature=0.0, root=group) == expected
